import { randomUUID } from 'node:crypto';
import type { Backend } from '../backend/backend.js';
import { withRetries } from '../backend/retry.js';
import { LockConfigError } from '../errors.js';
import type { CallLimits } from './quota-combiner.js';
import type { ShardLooks } from './shard-looks.js';
import { evenShares, type ShardedKey } from './shard-plan.js';

/**
 * Creates a quota that is spread, in even shares. The first shard decides: the plan that it is told first stands, and
 * every shard adds its share of that plan once. Whoever calls init again completes what a crash has left half done.
 */
export class ShardInitialiser {
  constructor(
    private readonly backend: Backend,
    private readonly looks: ShardLooks,
  ) {}

  /**
   * @returns whether this call created it.
   * @throws LockConfigError when it stands with another number of shards.
   */
  async init(quota: ShardedKey, amount: number, limits: CallLimits): Promise<boolean> {
    const { shards, name } = quota;
    const look = await this.looks.look(quota, limits);
    const exists = look.some((shard) => shard !== null);
    // granted, never initialised: what is there is all there is
    if (exists && look[0]?.plan === undefined) return false;
    const own = `${amount}:${shards.length}:${randomUUID()}`;
    const standing =
      look[0]?.plan ?? (await this.initShard(shards[0]!, own, evenShares(amount, shards.length)[0]!, limits));
    const [total, count] = standing.split(':').map(Number) as [number, number];
    if (count !== shards.length) {
      throw new LockConfigError({
        path: 'quota.shards',
        message: `the quota ${JSON.stringify(name)} stands with ${count} shards, not ${shards.length}: the number must not change while it lives`,
      });
    }
    const shares = evenShares(total, count);
    await Promise.all(
      shards.slice(1).map((key, at) => this.initShard(key, standing, shares[at + 1]!, limits)),
    );
    return standing === own;
  }

  private initShard(key: string, plan: string, share: number, { endAt }: CallLimits): Promise<string> {
    const budgetMs = Math.max(endAt - performance.now(), 1);
    return withRetries(this.backend, { budgetMs }, (timeoutMs) =>
      this.backend.quotas.initShard(key, plan, share, timeoutMs),
    );
  }
}
