import { randomBytes } from 'node:crypto';
import type { Backend, QuotaCall, QuotaReply } from '../backend/backend.js';
import { QuotaCombiner, type CallLimits, type CombinerSettings } from './quota-combiner.js';

/** So many idle combiners are kept for the next call on their quotas. */
const MOST_IDLE = 64;

/** A combiner for each quota, or shard, that calls of this process are under way on, and for some that were. */
export class QuotaLines {
  private readonly combiners = new Map<string, QuotaCombiner>();
  private readonly settings: CombinerSettings;

  constructor(backend: Backend, operationTtlMs: number) {
    let number = 0;
    this.settings = {
      backend,
      sender: randomBytes(9).toString('base64url'),
      nextNumber: () => ++number,
      operationTtlMs,
    };
  }

  submit(key: string, call: QuotaCall, limits: CallLimits, isShard = false): Promise<QuotaReply> {
    let combiner = this.combiners.get(key);
    if (!combiner) {
      const made = new QuotaCombiner(key, isShard, this.settings, () => {
        if (this.combiners.size <= MOST_IDLE) return;
        this.combiners.delete(key);
        made.dispose();
      });
      combiner = made;
      this.combiners.set(key, made);
    }
    return combiner.submit(call, limits);
  }
}
