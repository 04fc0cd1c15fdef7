import { StoreUnavailableError } from '../../errors.js';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  GiveWayReply,
  GiveWayRequest,
  Inbox,
  LeaseRef,
  LockState,
  LockStore,
  ReleaseReply,
} from '../backend.js';
import type { CleanUps } from './clean-ups.js';
import type { CommandArgument, Connection } from './connection.js';
import { fenceKey, queueKey, slotOf } from './keys.js';
import { LockBatcher, type BatchTerms } from './lock-batcher.js';
import { LockFinder } from './lock-finder.js';
import { NOT_SENT, type Carrier, type ScriptRunner } from './script-runner.js';
import { acquireAllScript } from './scripts/acquire-all.lua.js';
import { acquireScript } from './scripts/acquire.lua.js';
import { extendScript } from './scripts/extend.lua.js';
import { forceReleaseScript } from './scripts/force-release.lua.js';
import { giveWayScript } from './scripts/give-way.lua.js';
import type { PassingScript } from './scripts/lock-prelude.lua.js';
import { raiseFenceScript } from './scripts/raise-fence.lua.js';
import { keepScript, leaveScript, releaseScript } from './scripts/release.lua.js';
import { UnansweredTries } from './unanswered-tries.js';

/** At most 192 keys in one script: it must not block the server for long. */
const MOST_KEYS_PER_SCRIPT = 192;
const MOST_ACQUIRED_TOGETHER = MOST_KEYS_PER_SCRIPT / 3;
const MOST_EXTENDED_TOGETHER = MOST_KEYS_PER_SCRIPT / 2;
const LEAST_FENCE_LIFE_MS = 600_000;
const CLEAN_UP_TRY_MS = 1_000;

/** Locks in Redis: one string key each, as `SET key token NX PX ttl` writes it, and companions beside it. */
export class RedisLockStore implements LockStore {
  private readonly tries = new UnansweredTries();
  private readonly batcher: LockBatcher;
  private readonly finder: LockFinder;

  constructor(
    private readonly connection: Connection,
    private readonly runner: ScriptRunner,
    private readonly cleanUps: CleanUps,
    readonly inbox: Inbox,
    private readonly leastFenceLifeMs = LEAST_FENCE_LIFE_MS,
  ) {
    this.batcher = new LockBatcher(runner);
    this.finder = new LockFinder(connection, runner);
  }

  get epoch(): number {
    return this.connection.epoch;
  }

  acquire(request: AcquireRequest, timeoutMs: number): Promise<AcquireReply> {
    const lock = this.nameOf(request.key);
    if (request.queue || this.batcher.isIdle) return this.acquireAlone(lock, request, timeoutMs);
    const { key, token, leaseMs, ttlMs } = request;
    const { answer, carrier } = this.batcher.acquire(
      request,
      lock,
      this.batchTerms(lock, leaseMs, ttlMs, timeoutMs),
      (leftMs) =>
        // a token that was abandoned meanwhile must not be asked with again
        this.tries.answered(token, carrier)
          ? this.acquireAlone(lock, request, leftMs)
          : Promise.reject(notAsked(key)),
    );
    this.tries.began(token, carrier);
    return answer.then(
      (reply) => {
        this.tries.answered(token, carrier);
        return reply;
      },
      (error: StoreUnavailableError) => {
        if (error.outcome === 'notApplied') this.tries.answered(token, carrier);
        throw error;
      },
    );
  }

  canAcquireTogether(keys: readonly string[]): boolean {
    return keys.length <= MOST_ACQUIRED_TOGETHER && this.slotGroups(keys, (key) => key).length <= 1;
  }

  async acquireAll(
    requests: ReadonlyArray<Omit<AcquireRequest, 'queue'>>,
    timeoutMs: number,
  ): Promise<AcquireReply> {
    const keys = requests.map(({ key }) => key);
    if (keys.length === 0 || !this.canAcquireTogether(keys)) {
      throw new StoreUnavailableError(
        `These ${keys.length} keys cannot be taken in one step: at least one, at most ${MOST_ACQUIRED_TOGETHER}, and in a Cluster all in one slot.`,
        { keys },
      );
    }
    const locks = keys.map((key) => this.nameOf(key));
    const carrier: Carrier = { epoch: NOT_SENT, answered: false };
    const answered = (): void => {
      for (const { token } of requests) this.tries.answered(token, carrier);
    };
    for (const { token } of requests) this.tries.began(token, carrier);
    this.batcher.flush();
    try {
      const [busy, value, time] = (await this.runner.run(
        acquireAllScript,
        [...locks, ...locks.map(fenceKey), ...locks.map(queueKey)],
        requests.flatMap((one) => this.leaseArguments(one)),
        { timeoutMs, about: keys, carrier },
      )) as [number, number, number];
      answered();
      return busy === 0
        ? { status: 'granted', fencingToken: value, time }
        : { status: 'busy', key: keys[busy - 1]!, remainingMs: value, time };
    } catch (error) {
      if ((error as StoreUnavailableError).outcome === 'notApplied') answered();
      throw error;
    }
  }

  async raiseFence(
    requests: ReadonlyArray<{ key: string; fencingToken: number; ttlMs: number }>,
    timeoutMs: number,
  ): Promise<void> {
    const groups = this.slotGroups(requests, ({ key }) => key, MOST_KEYS_PER_SCRIPT);
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
    for (const group of this.slotGroups(requests, ({ key }) => key, MOST_EXTENDED_TOGETHER)) {
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

  release(request: LeaseRef & { keepMs: number; ttlMs: number }, timeoutMs: number): Promise<ReleaseReply> {
    const { key, token, keepMs, ttlMs } = request;
    const lock = this.nameOf(key);
    if (keepMs > 0) {
      this.batcher.flush();
      const options = { timeoutMs, about: key };
      return this.runner.run(keepScript, [lock], [token, wholeMs(keepMs)], options).then(toReleaseReply);
    }
    const alone = (leftMs: number): Promise<ReleaseReply> =>
      this.runPassing(releaseScript, lock, [token, this.fenceLife(ttlMs)], leftMs, key, toReleaseReply);
    if (this.batcher.isIdle) return alone(timeoutMs);
    return this.batcher.release(request, lock, this.batchTerms(lock, ttlMs, ttlMs, timeoutMs), alone);
  }

  giveWay({ key, token, next, leaseMs, ttlMs }: GiveWayRequest, timeoutMs: number): Promise<GiveWayReply> {
    const args = [token, this.fenceLife(ttlMs), next, wholeMs(leaseMs)];
    return this.runPassing(giveWayScript, this.nameOf(key), args, timeoutMs, key, toGiveWayReply, {
      token: next,
    });
  }

  abandon({ key, token, leaseMs, ttlMs }: LeaseRef & { leaseMs: number; ttlMs: number }): Promise<void> {
    const lock = this.nameOf(key);
    const args = [token, this.fenceLife(ttlMs)];
    const undo = (carrier: Carrier): Promise<unknown> =>
      this.runPassing(leaveScript, lock, args, CLEAN_UP_TRY_MS, key, toReleaseReply, { carrier });
    return this.cleanUps.add(undo, this.tries.take(token), leaseMs);
  }

  inspect(key: string, timeoutMs: number): Promise<LockState | null> {
    return this.finder.inspect(key, timeoutMs);
  }

  list(prefix: string, pattern: string, timeoutMs: number): AsyncIterable<LockState> {
    return this.finder.list(prefix, pattern, timeoutMs);
  }

  forceRelease(key: string, timeoutMs: number): Promise<boolean> {
    const args = [this.leastFenceLifeMs];
    return this.runPassing(
      forceReleaseScript,
      this.nameOf(key),
      args,
      timeoutMs,
      key,
      (reply) => reply === 1,
    );
  }

  private acquireAlone(
    lock: string,
    { key, token, leaseMs, ttlMs, queue }: AcquireRequest,
    timeoutMs: number,
  ): Promise<AcquireReply> {
    const args = [token, wholeMs(leaseMs), this.fenceLife(ttlMs)];
    if (queue) args.push(1);
    const decode = (reply: unknown): AcquireReply => toAcquireReply(reply as number | [number, number], key);
    return this.runPassing(acquireScript, lock, args, timeoutMs, key, decode, { token });
  }

  /** @param tries whose try it is, to be remembered until it was answered; or who remembers it already. */
  private runPassing<T>(
    { single, cluster }: PassingScript,
    lock: string,
    args: readonly CommandArgument[],
    timeoutMs: number,
    key: string,
    decode: (reply: unknown) => T,
    { token, carrier = { epoch: NOT_SENT, answered: false } }: { token?: string; carrier?: Carrier } = {},
  ): Promise<T> {
    this.batcher.flush();
    this.batcher.began();
    if (token !== undefined) this.tries.began(token, carrier);
    const settled = (error?: StoreUnavailableError): void => {
      this.batcher.ended();
      const isKnown = !error || error.outcome === 'notApplied';
      if (token !== undefined && isKnown) this.tries.answered(token, carrier);
    };
    return this.runner.run(
      this.connection.isCluster ? cluster : single,
      [lock, queueKey(lock), fenceKey(lock)],
      args,
      { timeoutMs, about: key, carrier, settled },
      decode,
    );
  }

  private batchTerms(lock: string, leaseMs: number, ttlMs: number, timeoutMs: number): BatchTerms {
    return {
      leaseMs: wholeMs(leaseMs),
      fenceLifeMs: this.fenceLife(ttlMs),
      timeoutMs,
      slot: this.connection.isCluster ? slotOf(lock) : 0,
    };
  }

  private nameOf(key: string): string {
    return this.connection.keyPrefix + key;
  }

  private fenceLife(ttlMs: number): number {
    return Math.max(this.leastFenceLifeMs, wholeMs(10 * ttlMs));
  }

  private leaseArguments({ token, leaseMs, ttlMs }: ExtendRequest): CommandArgument[] {
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

function notAsked(key: string): StoreUnavailableError {
  return new StoreUnavailableError(`The key ${JSON.stringify(key)}: given up before it was asked for.`, {
    keys: key,
    outcome: 'notApplied',
    retryable: true,
  });
}

function toAcquireReply(reply: number | [number, number], key: string): AcquireReply {
  if (typeof reply === 'number') return { status: 'granted', fencingToken: reply, time: reply };
  const [first, time] = reply;
  return first > 0
    ? { status: 'granted', fencingToken: first, time }
    : { status: 'busy', key, remainingMs: -2 - first, time };
}

function toReleaseReply(reply: unknown): ReleaseReply {
  return reply === 1 ? 'released' : reply === 0 ? 'gone' : 'foreign';
}

function toGiveWayReply(reply: unknown): GiveWayReply {
  const [code, ...rest] = reply as [number, number, number];
  if (code === 1) return { status: 'released', time: rest[0] };
  if (code === 2) return { status: 'kept', fencingToken: rest[0], time: rest[1] };
  return { status: code === 0 ? 'gone' : 'foreign' };
}
