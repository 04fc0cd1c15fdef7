import { randomUUID } from 'node:crypto';
import type { QuotaReply } from '../backend/backend.js';
import { isRedisLockError, StoreUnavailableError } from '../errors.js';
import type { LockManager } from '../lock/lock-manager.js';
import { formatPlace, generationOf, parsePlace } from './operation-place.js';
import { failure } from './quota-receipt.js';
import { sumOf } from './shard-looks.js';
import { homeOf } from './shard-plan.js';
import type { ShardRequests, Walk } from './shard-requests.js';

type Granted = Extract<QuotaReply, { status: 'granted' }>;

/** Short: after a crash in the middle, the next one waits for it. */
const GATHER_LOCK_TTL_MS = 1_000;

/**
 * Takes an amount that no shard has by itself from several of them, for one operation.
 *
 * The lock `<key>:gather` only keeps two gatherings from taking each other's last units. What makes it right is the
 * record at the operation's home, and generations: each session puts its name there first, takes parts under its
 * generation, and the units count as taken for good at the one moment when its compare-and-set turns the record into
 * `gathered`. A session that lost the lock, or died, is undone by the next under a higher generation: the shards
 * give its parts back once and refuse it from then on, and its own compare-and-set fails.
 */
export class ShardGatherer {
  constructor(
    private readonly requests: ShardRequests,
    private readonly locks: LockManager,
  ) {}

  /** @returns undefined when the operation's place or the shards have changed: look again. */
  gather(walk: Walk, from: string): Promise<Granted | undefined> {
    return this.locked(walk, () => this.gatherLocked(walk, from));
  }

  /** Takes back what an unfinished session has taken, unless that one gets through in time. */
  undo(walk: Walk, from: string): Promise<void> {
    return this.locked(walk, async () => {
      const [generation, session] = this.newSession(from);
      if ((await this.requests.move(walk, from, session)) === session) {
        await this.rollBack(walk, session, generation);
      }
    });
  }

  private async gatherLocked(walk: Walk, from: string): Promise<Granted | undefined> {
    const { requests } = this;
    const { amount, quota } = walk;
    // whoever had the lock before may have changed everything
    const look = await requests.look(walk);
    if (sumOf(look) < amount || look.some((shard) => shard && shard.remaining >= amount)) return undefined;
    const [generation, session] = this.newSession(from);
    if ((await requests.move(walk, from, session)) !== session) return undefined;

    const byRest = quota.shards
      .map((_, shard) => shard)
      .filter((shard) => (look[shard]?.remaining ?? 0) > 0)
      .sort((a, b) => look[b]!.remaining - look[a]!.remaining);
    const shards: number[] = [];
    let held = 0;
    for (const shard of byRest) {
      if (held === amount) break;
      // eslint-disable-next-line no-await-in-loop -- no more than is wanted may be taken
      const part = await requests.takePart(walk, shard, generation, amount - held);
      // another session has undone this one, and gives back what it took
      if (part === null) return undefined;
      if (part > 0) shards.push(shard);
      held += part;
    }
    if (held < amount) {
      await this.rollBack(walk, session, generation);
      return undefined;
    }
    const remaining = sumOf(await requests.look(walk));
    const gathered = formatPlace({ kind: 'gathered', amount, remaining, generation, shards });
    if ((await requests.move(walk, session, gathered)) !== gathered) return undefined;
    return { status: 'granted', amount, remaining, replayed: false };
  }

  /** Every shard, also those that say that they hold nothing: a late request of the session must find its refusal. */
  private async rollBack(walk: Walk, session: string, generation: number): Promise<void> {
    const { quota, operation } = walk;
    const replies = await Promise.all(
      quota.shards.map((_, shard) => this.requests.giveBackAt(walk, shard, generation)),
    );
    // the record stays as it is: whoever comes next tries again
    if (replies.some(({ status }) => status === 'unusable')) {
      throw failure(quota.name, { status: 'unusable', why: 'noInteger' }, { amount: walk.amount });
    }
    const home = homeOf(operation.operationId, quota.shards.length);
    const place = formatPlace({ kind: 'at', shard: home, generation: generation + 1 });
    await this.requests.move(walk, session, place);
  }

  private newSession(from: string): [generation: number, text: string] {
    const generation = generationOf(parsePlace(from)) + 1;
    // the name tells two sessions apart that both began from the same record
    return [generation, formatPlace({ kind: 'gather', generation, session: randomUUID() })];
  }

  private async locked<T>({ quota, limits }: Walk, task: () => Promise<T>): Promise<T> {
    const waitTimeout = Math.max(Math.floor(limits.endAt - performance.now()), 1);
    try {
      return await this.locks.withLock(`${quota.name}:gather`, task, {
        ttl: GATHER_LOCK_TTL_MS,
        waitTimeout,
        autoExtend: true,
        minHold: 0,
        reentrant: false,
        onLost: 'report',
        ...(limits.signal ? { signal: limits.signal } : {}),
      });
    } catch (error) {
      if (!isRedisLockError(error)) throw error;
      if (!['LOCK_BUSY', 'LOCK_TIMEOUT', 'LOCK_ABORTED'].includes(error.code)) throw error;
      throw new StoreUnavailableError(
        `The quota ${JSON.stringify(quota.name)}: others gather from its shards; nothing was carried out.`,
        { keys: quota.name, cause: error, outcome: 'notApplied', retryable: true },
      );
    }
  }
}
