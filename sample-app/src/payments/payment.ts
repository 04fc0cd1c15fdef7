import type { PaymentProvider } from '../database/schema.js';

/** What every provider's notification comes down to: this order was paid, with this transaction. */
export interface PaymentNotice {
  provider: PaymentProvider;
  /** The notification's id: the same in every delivery of it. */
  notificationId: string;
  orderId: string;
  /** The provider's own id of the transaction. */
  transactionId: string;
  /** In cents. */
  amount: number;
}
