/** What happens in the shop, in any of its processes, for somebody who watches. */
export type ActivityEvent = CallbackActivity | SectionActivity | StockActivity | QuotaActivity;

/** A provider's callback: once `in`, then exactly one of the others. */
export interface CallbackActivity {
  type: 'callback';
  /**
   * - `in`: it has arrived.
   * - `taken`: its handler ran and it was answered with a success.
   * - `replayed`: it was answered from the idempotency record; nothing ran.
   * - `refused`: it was answered with an error.
   */
  outcome: 'in' | 'taken' | 'replayed' | 'refused';
  orderId?: string;
  /** The `code` of the answer, e.g. `WRONG_AMOUNT`; only where it was refused. */
  reason?: string;
}

/** A critical section that has ended. Two of one key that overlap in time would be a fault. */
export interface SectionActivity {
  type: 'section';
  /** The lock's key. */
  key: string;
  fencingToken: number;
  /** Milliseconds since 1970, by the clock of the process that ran it. */
  startedAt: number;
  endedAt: number;
  /** The process that ran it, e.g. `pid 4711`. */
  process: string;
}

/** Stock was taken, given back or added: read it again. */
export interface StockActivity {
  type: 'stock';
}

/** A merchant's quota was charged, given back or topped up: read it again. */
export interface QuotaActivity {
  type: 'quota';
}
