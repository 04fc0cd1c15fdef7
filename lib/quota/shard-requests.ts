import type { Backend, GiveBackReply, OperationRef, QuotaReply, ShardReply } from '../backend/backend.js';
import { withRetries } from '../backend/retry.js';
import type { CallLimits } from './quota-combiner.js';
import type { QuotaLines } from './quota-lines.js';
import type { Look, ShardLooks, Survey } from './shard-looks.js';
import { tooLate } from './shard-looks.js';
import { homeOf, type ShardedKey } from './shard-plan.js';

/** One operation on its way over the shards. */
export interface Walk {
  quota: ShardedKey;
  amount: number;
  operation: OperationRef;
  limits: CallLimits;
}

/** What a walk asks of the store; each is repeated until it is answered or the call's time is up. */
export class ShardRequests {
  constructor(
    private readonly backend: Backend,
    private readonly lines: QuotaLines,
    private readonly looks: ShardLooks,
  ) {}

  /** The operation's first step: at its home, together with other calls of this process. */
  deductAtHome({ quota, amount, operation, limits }: Walk): Promise<QuotaReply> {
    const { operationId } = operation;
    const home = this.homeKey(quota, operationId);
    return this.lines.submit(home, { kind: 'deduct', amount, operationId }, limits, true);
  }

  refundAtHome({ quota, operation, limits }: Walk): Promise<QuotaReply> {
    const { operationId } = operation;
    return this.lines.submit(this.homeKey(quota, operationId), { kind: 'refund', operationId }, limits, true);
  }

  /** Compare-and-set of the operation's record at its home; what stands after it. */
  move({ quota, operation, limits }: Walk, from: string, to: string): Promise<string> {
    const home = this.homeKey(quota, operation.operationId);
    return this.asking(quota, limits, (timeoutMs) =>
      this.backend.quotas.move(home, operation, from, to, timeoutMs),
    );
  }

  deductAt(
    { quota, amount, operation, limits }: Walk,
    shard: number,
    generation: number,
  ): Promise<ShardReply> {
    return this.asking(quota, limits, (timeoutMs) =>
      this.backend.quotas.deductAt(quota.shards[shard]!, operation, generation, amount, timeoutMs),
    );
  }

  takePart(
    { quota, operation, limits }: Walk,
    shard: number,
    generation: number,
    wanted: number,
  ): Promise<number | null> {
    return this.asking(quota, limits, (timeoutMs) =>
      this.backend.quotas.takePart(quota.shards[shard]!, operation, generation, wanted, timeoutMs),
    );
  }

  giveBackAt({ quota, operation, limits }: Walk, shard: number, generation: number): Promise<GiveBackReply> {
    return this.asking(quota, limits, (timeoutMs) =>
      this.backend.quotas.giveBackAt(quota.shards[shard]!, operation, generation, timeoutMs),
    );
  }

  look({ quota, limits }: Walk): Promise<Look> {
    return this.looks.look(quota, limits);
  }

  survey({ quota, amount, limits }: Walk): Promise<Survey> {
    return this.looks.survey(quota, amount, limits);
  }

  homeKey({ shards }: ShardedKey, operationId: string): string {
    return shards[homeOf(operationId, shards.length)]!;
  }

  private async asking<T>(
    quota: ShardedKey,
    { endAt, signal }: CallLimits,
    attempt: (timeoutMs: number) => Promise<T>,
  ): Promise<T> {
    const budgetMs = endAt - performance.now();
    if (budgetMs <= 0) throw tooLate(quota);
    return withRetries(this.backend, { budgetMs, ...(signal ? { signal } : {}) }, attempt);
  }
}

/** Ends a walk that has no time left. Whatever was answered until here was a refusal. */
export function assertTime({ quota, limits }: Walk): void {
  if (performance.now() >= limits.endAt) throw tooLate(quota);
}
