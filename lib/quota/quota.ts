/** What a grant, a deduction or a refund did. */
export interface QuotaReceipt {
  /** The quota's key, as it was given. */
  key: string;
  /** How much was added, taken or given back. */
  amount: number;
  /**
   * What was left right after it: in the quota, or, where it is spread over shards, in the shard that served it
   * (`remaining()` tells the sum).
   */
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
  /**
   * Gives the call up: it rejects with a `StoreUnavailableError` that has the signal's reason as `cause`, and whose
   * `outcome` says whether the call may have been carried out.
   */
  signal?: AbortSignal;
}
