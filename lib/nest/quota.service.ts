import { Injectable } from '@nestjs/common';
import type { QuotaManager } from '../quota/quota-manager.js';
import type { QuotaOperationOptions, QuotaReceipt } from '../quota/quota.js';

/**
 * Takes from a stock, a prepaid quota or a balance, atomically: it never goes below zero, however many callers
 * there are in however many processes, and needs no lock. Amounts are positive safe integers. The store keeps a
 * hash per key with the field `remain`.
 *
 * Every method may reject with a `LockKeyError` (the key is no key) and with a `StoreUnavailableError`; when
 * that one's `outcome` is `'unknown'`, the call may have been carried out: repeat it with the same operation id.
 */
@Injectable()
export class QuotaService {
  constructor(private readonly manager: QuotaManager) {}

  /**
   * Sets the quota, only where there is none.
   * @returns whether this call created it.
   * @throws QuotaAmountError when the amount is no positive safe integer.
   */
  init(key: string, amount: number): Promise<boolean> {
    return this.manager.init(key, amount);
  }

  /**
   * Adds to the quota; creates it where there is none.
   * @throws QuotaAmountError when the amount is no positive safe integer.
   * @throws QuotaOperationError when the operation id was used for something else.
   */
  grant(key: string, amount: number, options?: QuotaOperationOptions): Promise<QuotaReceipt> {
    return this.manager.grant(key, amount, options);
  }

  /**
   * Takes from the quota, all of the amount or nothing.
   * @param amount default 1.
   * @throws QuotaExceededError when there is not enough; a later, smaller call may still be served.
   * @throws QuotaNotFoundError when there is no such quota.
   * @throws QuotaAmountError when the amount is no positive safe integer.
   * @throws QuotaOperationError when the operation id was used for something else, or was refunded.
   */
  deduct(key: string, amount?: number, options?: QuotaOperationOptions): Promise<QuotaReceipt> {
    return this.manager.deduct(key, amount, options);
  }

  /** As {@link deduct}, but resolves to null when there is not enough. */
  tryDeduct(key: string, amount?: number, options?: QuotaOperationOptions): Promise<QuotaReceipt | null> {
    return this.manager.tryDeduct(key, amount, options);
  }

  /**
   * Gives back what that operation took, once. Again it changes nothing and returns the first refund's receipt
   * with `replayed: true`.
   * @returns null when no such operation is known: it was refused, never made, or is older than the module's
   *   `quota.operationTtl`.
   */
  refund(key: string, operationId: string): Promise<QuotaReceipt | null> {
    return this.manager.refund(key, operationId);
  }

  /** What is left; null when there is no such quota. */
  remaining(key: string): Promise<number | null> {
    return this.manager.remaining(key);
  }
}
