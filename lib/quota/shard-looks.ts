import type { Backend, ShardState } from '../backend/backend.js';
import { isStoreUnavailable, withRetries } from '../backend/retry.js';
import { StoreUnavailableError } from '../errors.js';
import type { CallLimits } from './quota-combiner.js';
import type { ShardedKey } from './shard-plan.js';

/** All shards of a quota, each at some moment after the look was asked for. */
export type Look = ReadonlyArray<ShardState | null>;

/** What two looks in a row say to a request. */
export type Survey =
  /** This shard had enough. */
  | { kind: 'fits'; shard: number }
  /** There was a moment at which all of them together had too little. */
  | { kind: 'short'; remaining: number }
  /** Together they had enough, none by itself. */
  | { kind: 'scattered' }
  /** Something was given back in between: look again. */
  | { kind: 'changed' }
  | { kind: 'notFound' };

const LOOK_WITHIN_MS = 2_000;

/** Looks at all shards of a quota, for all callers of this process that want to know at the same time. */
export class ShardLooks {
  private readonly running = new Map<string, Promise<Look>>();
  private readonly next = new Map<string, Promise<Look>>();

  constructor(private readonly backend: Backend) {}

  /**
   * A look that begins after this call: one that is under way may have missed what the caller knows.
   *
   * @throws StoreUnavailableError whose outcome is `notApplied`: looking changes nothing.
   */
  async look(quota: ShardedKey, { endAt }: CallLimits): Promise<Look> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      const leftMs = Math.max(endAt - performance.now(), 1);
      timer = setTimeout(() => reject(tooLate(quota)), leftMs).unref();
    });
    try {
      return await Promise.race([this.shared(quota), late]);
    } catch (error) {
      if (!isStoreUnavailable(error) || error.outcome === 'notApplied') throw error;
      const { message, keys, retryable } = error;
      throw new StoreUnavailableError(message, { keys, retryable, cause: error, outcome: 'notApplied' });
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * "Too little" needs two looks: with no increase between its two readings a shard had, all the time from the end of
   * the first look to the beginning of the second, at most what the first one read. One look alone may see each
   * shard empty although there was never a moment at which all of them were.
   */
  async survey(quota: ShardedKey, amount: number, limits: CallLimits): Promise<Survey> {
    const first = await this.look(quota, limits);
    if (first.every((shard) => shard === null)) return { kind: 'notFound' };
    const fitting = first.flatMap((shard, at) => (shard && shard.remaining >= amount ? [at] : []));
    // not always the same one: all callers of a look would run there
    if (fitting.length > 0) {
      return { kind: 'fits', shard: fitting[Math.floor(Math.random() * fitting.length)]! };
    }
    const second = await this.look(quota, limits);
    if (first.some((shard, at) => shard?.version !== second[at]?.version)) return { kind: 'changed' };
    if (sumOf(first) < amount) return { kind: 'short', remaining: sumOf(first) };
    return { kind: 'scattered' };
  }

  private shared(quota: ShardedKey): Promise<Look> {
    const running = this.running.get(quota.full);
    if (!running) return this.begin(quota);
    let next = this.next.get(quota.full);
    if (!next) {
      const begin = (): Promise<Look> => {
        this.next.delete(quota.full);
        return this.begin(quota);
      };
      next = running.then(begin, begin);
      this.next.set(quota.full, next);
    }
    return next;
  }

  private begin(quota: ShardedKey): Promise<Look> {
    const look = Promise.all(
      quota.shards.map((key) =>
        withRetries(this.backend, { budgetMs: LOOK_WITHIN_MS }, (timeoutMs) =>
          this.backend.quotas.look(key, timeoutMs),
        ),
      ),
    );
    const end = (): void => {
      if (this.running.get(quota.full) === look) this.running.delete(quota.full);
    };
    look.then(end, end);
    this.running.set(quota.full, look);
    return look;
  }
}

export function sumOf(look: Look): number {
  return look.reduce((sum, shard) => sum + (shard?.remaining ?? 0), 0);
}

/** The time ran out before anything was taken. */
export function tooLate({ name }: ShardedKey): StoreUnavailableError {
  return new StoreUnavailableError(
    `The quota ${JSON.stringify(name)} changed, or did not answer, for as long as a call may take; nothing was carried out.`,
    { keys: name, outcome: 'notApplied', retryable: true },
  );
}
