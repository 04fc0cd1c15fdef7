import { Injectable } from '@nestjs/common';
import type { Lock } from 'nestjs-redis-lock';
import { ActivityService } from '../activity/activity.service.js';
import { Database } from '../database/database.js';
import { isCheckViolation } from '../database/database-errors.js';
import { RefusedWrites } from '../database/refused-writes.js';
import type { PaymentProvider } from '../database/schema.js';
import { bookTaken, type Operation } from '../gates/gate.js';
import { MerchantsService, lowBalance } from '../merchants/merchants.service.js';
import { OrdersService, StaleHolderError, notPending, type Order } from '../orders/orders.service.js';

/** What the buyer's client needs to go to the provider. */
export interface PaymentStart {
  orderId: string;
  provider: PaymentProvider;
  amount: number;
  payUntil: string;
}

/**
 * The buyer presses "pay". The merchant's quota is charged here, before the buyer's money is taken: a merchant who has
 * none left is told now, and not when the money is there. A cancelled or expired order gives the charge back.
 */
@Injectable()
export class StartPaymentService {
  constructor(
    private readonly database: Database,
    private readonly orders: OrdersService,
    private readonly merchants: MerchantsService,
    private readonly refused: RefusedWrites,
    private readonly activity: ActivityService,
  ) {}

  /** Again and again the same: an order is charged once, from whichever entry point. */
  start(orderId: string, provider: PaymentProvider, lock: Lock): Promise<PaymentStart> {
    return this.activity.section(lock, () => this.startUnder(lock, orderId, provider));
  }

  private async startUnder(lock: Lock, orderId: string, provider: PaymentProvider): Promise<PaymentStart> {
    const order = await this.orders.claim(orderId, lock.fencingToken);
    if (!order) throw await this.stale(orderId);
    if (order.status !== 'pending') throw notPending(order);
    const taken = await this.orders.takenFor(orderId);
    if (!taken.some(({ gate }) => gate.startsWith('quota:'))) {
      const charge = await this.merchants.charge(order.merchant_id, orderId);
      lock.assertHeld();
      await this.book(order, charge);
    }
    return { orderId, provider, amount: order.amount, payUntil: order.expires_at };
  }

  private async book(order: Order, charge: Operation): Promise<void> {
    try {
      await this.database.transaction(async (trx) => {
        // Changes nothing, but holds the row and looks at fence and state in the same transaction as the charge.
        await this.orders.write(trx, order, { fence: order.fence });
        await bookTaken(trx, charge);
      });
    } catch (error) {
      if (error instanceof StaleHolderError) throw await this.stale(order.id);
      if (!isCheckViolation(error)) throw error;
      await this.refused.record(charge.operationId, 'overspend');
      throw lowBalance(order.merchant_id, 0);
    }
  }

  private async stale(orderId: string): Promise<Error> {
    await this.refused.record(`pay:${orderId}`, 'stale holder');
    return new StaleHolderError(orderId);
  }
}
