/** What a grant, a deduction or a refund did. */
export interface QuotaReceipt {
  /** The quota's key, as it was given. */
  key: string;
  /** How much was added, taken or given back. */
  amount: number;
  /** What was left in the quota right after it. */
  remaining: number;
  /** The operation's id, when it had one. */
  operationId?: string;
  /** True: this had been done before, under the same id; now nothing was changed. */
  replayed: boolean;
}

/** Options of a grant or a deduction. */
export interface QuotaOperationOptions {
  /**
   * Names the operation, e.g. `'order:10001'`; up to 255 characters. The same id again, after a lost answer say,
   * gets the first receipt and changes nothing. Give one whenever money or stock is behind it.
   */
  operationId?: string;
}
