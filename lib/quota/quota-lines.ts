import { randomBytes } from 'node:crypto';
import type { Backend, QuotaCall, QuotaReply } from '../backend/backend.js';
import { QuotaCombiner, type CallLimits, type CombinerSettings } from './quota-combiner.js';

/** A combiner for each quota, or shard, that calls of this process are under way on; none for the others. */
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
      combiner = new QuotaCombiner(key, isShard, this.settings, () => this.combiners.delete(key));
      this.combiners.set(key, combiner);
    }
    return combiner.submit(call, limits);
  }
}
