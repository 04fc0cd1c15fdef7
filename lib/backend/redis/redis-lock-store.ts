import { StoreUnavailableError } from '../../errors.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LeaseRef,
  LockState,
  LockStore,
  ReleaseReply,
} from '../backend.js';
import type { CleanUps } from './clean-ups.js';
import type { CommandArgument, Connection } from './connection.js';
import { escapeGlob, FENCE_SUFFIX, fenceKey, globToRegExp, keyOfFence, queueKey, slotOf } from './keys.js';
import { NOT_SENT, type Carrier, type ScriptRunner } from './script-runner.js';
import { acquireAllScript } from './scripts/acquire-all.lua.js';
import { acquireScript } from './scripts/acquire.lua.js';
import { extendScript } from './scripts/extend.lua.js';
import { forceReleaseScript } from './scripts/force-release.lua.js';
import { inspectScript } from './scripts/inspect.lua.js';
import { raiseFenceScript } from './scripts/raise-fence.lua.js';
import { releaseScript } from './scripts/release.lua.js';
import { UnansweredTries } from './unanswered-tries.js';

/** Two keys for each lock, and at most 192 keys in one script: it must not block the server for long. */
const MOST_LOCKS_PER_SCRIPT = 96;
const MOST_FENCES_PER_SCRIPT = 192;
const LEAST_FENCE_LIFE_MS = 600_000;
const SCAN_COUNT = 500;
const CLEAN_UP_TRY_MS = 1_000;

/** Locks in Redis: one string key each, as `SET key token NX PX ttl` writes it, and companions beside it. */
export class RedisLockStore implements LockStore {
  private readonly tries = new UnansweredTries();

  constructor(
    private readonly connection: Connection,
    private readonly runner: ScriptRunner,
    private readonly cleanUps: CleanUps,
    private readonly leastFenceLifeMs = LEAST_FENCE_LIFE_MS,
  ) {}

  acquire({ key, token, leaseMs, ttlMs }: AcquireRequest, timeoutMs: number): Promise<AcquireReply> {
    const lock = this.nameOf(key);
    const carrier: Carrier = { epoch: NOT_SENT, answered: false };
    this.tries.began(token, carrier);
    return this.runner
      .run(acquireScript, [lock, fenceKey(lock)], [token, wholeMs(leaseMs), this.fenceLife(ttlMs)], {
        timeoutMs,
        about: key,
        carrier,
      })
      .then(
        (reply) => {
          this.tries.answered(token, carrier);
          const answer = reply as number;
          return answer > 0
            ? { status: 'granted', fencingToken: answer }
            : { status: 'busy', key, remainingMs: -2 - answer };
        },
        (error: StoreUnavailableError) => {
          if (error.outcome === 'notApplied') this.tries.answered(token, carrier);
          throw error;
        },
      );
  }

  canAcquireTogether(keys: readonly string[]): boolean {
    return keys.length <= MOST_LOCKS_PER_SCRIPT && this.slotGroups(keys, (key) => key).length <= 1;
  }

  async acquireAll(requests: readonly AcquireRequest[], timeoutMs: number): Promise<AcquireReply> {
    const keys = requests.map(({ key }) => key);
    if (keys.length === 0 || !this.canAcquireTogether(keys)) {
      throw new StoreUnavailableError(
        `These ${keys.length} keys cannot be taken in one step: at least one, at most ${MOST_LOCKS_PER_SCRIPT}, and in a Cluster all in one slot.`,
        { keys },
      );
    }
    const locks = keys.map((key) => this.nameOf(key));
    const carrier: Carrier = { epoch: NOT_SENT, answered: false };
    const answered = (): void => {
      for (const { token } of requests) this.tries.answered(token, carrier);
    };
    for (const { token } of requests) this.tries.began(token, carrier);
    try {
      const [busy, value] = (await this.runner.run(
        acquireAllScript,
        [...locks, ...locks.map(fenceKey)],
        requests.flatMap((one) => this.leaseArguments(one)),
        { timeoutMs, about: keys, carrier },
      )) as [number, number];
      answered();
      return busy === 0
        ? { status: 'granted', fencingToken: value }
        : { status: 'busy', key: keys[busy - 1]!, remainingMs: value };
    } catch (error) {
      if ((error as StoreUnavailableError).outcome === 'notApplied') answered();
      throw error;
    }
  }

  async raiseFence(
    requests: ReadonlyArray<{ key: string; fencingToken: number; ttlMs: number }>,
    timeoutMs: number,
  ): Promise<void> {
    const groups = this.slotGroups(requests, ({ key }) => key, MOST_FENCES_PER_SCRIPT);
    await Promise.all(
      groups.map((group) =>
        this.runner.run(
          raiseFenceScript,
          group.map(({ key }) => fenceKey(this.nameOf(key))),
          group.flatMap(({ fencingToken, ttlMs }) => [fencingToken, this.fenceLife(ttlMs)]),
          { timeoutMs, about: group.map(({ key }) => key) },
        ),
      ),
    );
  }

  extend(requests: readonly ExtendRequest[], timeoutMs: number): Array<Promise<ExtendReply>> {
    const replies = new Map<ExtendRequest, Promise<ExtendReply>>();
    for (const group of this.slotGroups(requests, ({ key }) => key, MOST_LOCKS_PER_SCRIPT)) {
      const answers = this.runner.run(
        extendScript,
        group.flatMap(({ key }) => {
          const lock = this.nameOf(key);
          return [lock, fenceKey(lock)];
        }),
        group.flatMap((one) => this.leaseArguments(one)),
        { timeoutMs, about: group.map(({ key }) => key) },
      ) as Promise<number[]>;
      group.forEach((request, at) => {
        replies.set(
          request,
          answers.then((all) => (all[at] === 1 ? 'extended' : all[at] === 0 ? 'gone' : 'foreign')),
        );
      });
    }
    return requests.map((request) => replies.get(request)!);
  }

  release({ key, token, keepMs }: LeaseRef & { keepMs: number }, timeoutMs: number): Promise<ReleaseReply> {
    return this.runner
      .run(releaseScript, [this.nameOf(key)], [token, keepMs > 0 ? wholeMs(keepMs) : 0], {
        timeoutMs,
        about: key,
      })
      .then((reply) => (reply === 1 ? 'released' : reply === 0 ? 'gone' : 'foreign'));
  }

  abandon({ key, token, leaseMs }: LeaseRef & { leaseMs: number }): Promise<void> {
    const lock = this.nameOf(key);
    const undo = (carrier: Carrier): Promise<unknown> =>
      this.runner.run(releaseScript, [lock], [token, 0], { timeoutMs: CLEAN_UP_TRY_MS, about: key, carrier });
    return this.cleanUps.add(undo, this.tries.take(token), leaseMs);
  }

  async inspect(key: string, timeoutMs: number): Promise<LockState | null> {
    const lock = this.nameOf(key);
    const reply = (await this.runner.run(inspectScript, [lock, fenceKey(lock), queueKey(lock)], [], {
      timeoutMs,
      about: key,
    })) as [string, number, string, number] | null;
    if (!reply) return null;
    const [token, remainingMs, fence, waitingProcesses] = reply;
    const state: LockState = { key, token, remainingMs, waitingProcesses };
    if (/^\d+$/.test(fence)) state.fencingToken = Number(fence);
    return state;
  }

  async *list(prefix: string, pattern: string, timeoutMs: number): AsyncIterable<LockState> {
    const wanted = `${escapeGlob(this.nameOf(prefix))}${pattern}`;
    const isWanted = globToRegExp(wanted);
    const seen = new Set<string>();
    // before the key may stand the brace of its companions' hash tag, and behind it the other one
    for await (const names of this.scan(`*${wanted}*${FENCE_SUFFIX}`, timeoutMs)) {
      const locks = names
        .map(keyOfFence)
        .filter((lock) => lock !== undefined && isWanted.test(lock) && !seen.has(lock));
      const fresh = [...new Set(locks as string[])];
      for (const lock of fresh) seen.add(lock);
      const states = await Promise.all(
        fresh.map((lock) => this.inspect(lock.slice(this.connection.keyPrefix.length), timeoutMs)),
      );
      for (const state of states) if (state) yield state;
    }
  }

  async forceRelease(key: string, timeoutMs: number): Promise<boolean> {
    return (
      (await this.runner.run(forceReleaseScript, [this.nameOf(key)], [], { timeoutMs, about: key })) === 1
    );
  }

  private async *scan(match: string, timeoutMs: number): AsyncIterable<string[]> {
    for (const node of this.connection.nodes()) {
      let cursor = '0';
      do {
        const reply = await this.runner.command('scan', [cursor, 'MATCH', match, 'COUNT', SCAN_COUNT], {
          timeoutMs,
          about: [],
          node,
        });
        const [next, names] = reply as [string, string[]];
        cursor = next;
        yield names;
      } while (cursor !== '0');
    }
  }

  private nameOf(key: string): string {
    return this.connection.keyPrefix + key;
  }

  private fenceLife(ttlMs: number): number {
    return Math.max(this.leastFenceLifeMs, wholeMs(10 * ttlMs));
  }

  private leaseArguments({ token, leaseMs, ttlMs }: AcquireRequest | ExtendRequest): CommandArgument[] {
    return [token, wholeMs(leaseMs), this.fenceLife(ttlMs)];
  }

  /** What may go into one script: in a Cluster only keys of one slot. */
  private slotGroups<T>(items: readonly T[], keyOf: (item: T) => string, most = Infinity): T[][] {
    const bySlot = new Map<number, T[]>();
    for (const item of items) {
      const slot = this.connection.isCluster ? slotOf(this.nameOf(keyOf(item))) : 0;
      const known = bySlot.get(slot);
      if (known) known.push(item);
      else bySlot.set(slot, [item]);
    }
    return [...bySlot.values()].flatMap((all) => {
      if (all.length <= most) return [all];
      return Array.from({ length: Math.ceil(all.length / most) }, (_, at) =>
        all.slice(at * most, (at + 1) * most),
      );
    });
  }
}

/** Redis counts in whole milliseconds, and 0 would be an error. */
function wholeMs(ms: number): number {
  return Math.max(1, Math.ceil(ms));
}
