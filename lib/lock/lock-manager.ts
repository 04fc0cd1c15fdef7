import { setMaxListeners } from 'node:events';
import type { Observable } from 'rxjs';
import type { Backend } from '../backend/backend.js';
import { withRetries } from '../backend/retry.js';
import { LockAbortedError, LockLostError, isRedisLockError } from '../errors.js';
import { Budget } from './budget.js';
import { findInChain } from './call-chain.js';
import { delay } from './delay.js';
import { Hold } from './hold.js';
import { Lease, type LeaseTerms } from './lease.js';
import { LeaseExtender } from './lease-extender.js';
import { LeaseReleaser } from './lease-releaser.js';
import type { Lock, LockEvent, LockInfo, LockOptions } from './lock.js';
import { LockEvents } from './lock-events.js';
import { LockLines } from './lock-lines.js';
import { LockHandle, type HandleOwner } from './lock-handle.js';
import { lockKey, lockKeys, type LockKey } from './lock-key.js';
import { LOCK_DEFAULTS, resolveLockOptions, type ResolvedLockOptions } from './lock-options.js';
import { nestedHold } from './nested-hold.js';
import { SeveralKeys } from './several-keys.js';
import { TogetherAcquirer } from './together-acquirer.js';
import { TokenSource } from './token-source.js';
import { systemClock, type Clock } from './validity.js';
import { Watchdog } from './watchdog.js';

const COMMAND_TIMEOUT_MS = 1_000;
/** Bounds the questions that are no acquisition: looks and an operator's release. */
const LOOK_BUDGET_MS = 2_000;
/** What a shutdown waits for its last releases, behind the drain. */
const LAST_RELEASES_WITHIN_MS = 1_000;

export interface LockManagerSettings {
  backend: Backend;
  /** Stands before every key. @default '' */
  keyPrefix?: string;
  /** The module's defaults for every lock. */
  defaults?: ResolvedLockOptions;
  clock?: Clock;
}

/**
 * Locks over a store: acquires leases, gives their holds to callers, keeps them alive, and gives them back.
 * Knows nothing of Nest or of Redis.
 */
export class LockManager implements HandleOwner {
  readonly events: Observable<LockEvent>;
  /** The events that tell of something wrong. */
  readonly problems: Observable<LockEvent>;
  readonly #backend: Backend;
  readonly #prefix: string;
  readonly #defaults: ResolvedLockOptions;
  readonly #clock: Clock;
  readonly #events = new LockEvents();
  readonly #watchdog: Watchdog;
  readonly #lines: LockLines;
  readonly #severalKeys: SeveralKeys;
  readonly #extender: LeaseExtender;
  readonly #releaser: LeaseReleaser;
  readonly #handles = new Set<LockHandle>();
  readonly #leases = new Set<Lease>();
  readonly #work = new Set<Promise<unknown>>();
  readonly #closed = new AbortController();
  #onIdle: (() => void) | undefined;

  constructor(settings: LockManagerSettings) {
    const { backend, keyPrefix = '', defaults = LOCK_DEFAULTS, clock = systemClock } = settings;
    this.#backend = backend;
    this.#prefix = keyPrefix;
    this.#defaults = defaults;
    this.#clock = clock;
    this.events = this.#events.stream;
    this.problems = this.#events.problems;

    const tokens = new TokenSource(backend.tokenPrefix);
    const whenReady = (timeoutMs: number): Promise<void> => backend.whenReady(timeoutMs);
    const background = (work: Promise<unknown>): void => this.#inBackground(work);
    const lease = (grant: ConstructorParameters<typeof Lease>[0]): Lease =>
      new Lease(grant, clock, (lost, why) => this.#leaseLost(lost, why.cause));
    this.#watchdog = new Watchdog(
      backend.locks,
      {
        overdue: (overdue) => overdue.tell({ reason: 'maxHold' }),
        extendFailed: ({ key, token, fencingToken }, error) =>
          this.#events.emit('extendFailed', () => ({ key: key.name, token, fencingToken, error })),
      },
      whenReady,
      clock,
    );
    this.#releaser = new LeaseReleaser(backend.locks, whenReady, background);
    const events = this.#events;
    this.#extender = new LeaseExtender(backend, clock);
    this.#lines = new LockLines({
      backend,
      tokens,
      releaser: this.#releaser,
      events,
      clock,
      lease,
      keep: (granted) => this.#keep(granted),
      check: (held) => this.#inBackground(this.#extender.extend([held])),
      background,
    });
    const giveBack = (unheld: Lease): void => this.#lines.giveBack(unheld);
    this.#severalKeys = new SeveralKeys({
      backend,
      together: new TogetherAcquirer({ backend, tokens, events, clock, lease, giveBack, background }),
      extender: this.#extender,
      events,
      hold: (key, options, budget, terms) => this.#hold(key, options, budget, terms),
      isNested: (key, options) => this.#parentOf(key, options) !== undefined,
      isAwaited: (key) => this.#lines.isAwaited(key),
      keep: (granted) => {
        this.#keep(granted);
        this.#lines.adopt(granted);
      },
      discard: (unheld) => this.#discard(unheld),
      closed: this.#closed.signal,
    });
    setMaxListeners(0, this.#closed.signal);
  }

  acquire(key: string | readonly string[], options?: LockOptions): Promise<Lock> {
    try {
      return this.#acquire(lockKeys(key, this.#prefix), resolveLockOptions(options, this.#defaults));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async tryAcquire(key: string | readonly string[], options?: LockOptions): Promise<Lock | null> {
    try {
      return await this.acquire(key, { ...options, waitTimeout: 0 });
    } catch (error) {
      if (isRedisLockError(error, 'LOCK_BUSY')) return null;
      throw error;
    }
  }

  async withLock<T>(
    key: string | readonly string[],
    task: (lock: Lock) => T,
    options?: LockOptions,
  ): Promise<Awaited<T>> {
    const resolved = resolveLockOptions(options, this.#defaults);
    const lock = await this.#acquire(lockKeys(key, this.#prefix), resolved);
    let outcome: { result: Awaited<T> } | { cause: unknown };
    try {
      outcome = { result: await lock.run(() => task(lock)) };
    } catch (error) {
      outcome = { cause: error };
    }
    const { lost } = await lock.end();
    if (lost && resolved.onLost === 'throw') {
      // a task that gave up for this very reason says so already
      if ('cause' in outcome && outcome.cause === lock.lostError()) throw outcome.cause;
      throw lock.makeLostError(lost, outcome);
    }
    if ('cause' in outcome) throw outcome.cause;
    return outcome.result;
  }

  current(key?: string): Lock | undefined {
    const full = key === undefined ? undefined : this.#prefix + key;
    return findInChain(this, (lock) => (full === undefined || lock.holdOf(full) ? lock : undefined));
  }

  async inspect(key: string): Promise<LockInfo | null> {
    const { name, full } = lockKey(key, this.#prefix);
    const state = await this.#look((timeoutMs) => this.#backend.locks.inspect(full, timeoutMs));
    return state && { ...state, key: name };
  }

  async *list(pattern = '*'): AsyncIterable<LockInfo> {
    for await (const state of this.#backend.locks.list(this.#prefix, pattern, LOOK_BUDGET_MS)) {
      yield { ...state, key: state.key.slice(this.#prefix.length) };
    }
  }

  async forceRelease(key: string): Promise<boolean> {
    const { full } = lockKey(key, this.#prefix);
    const released = await this.#look((timeoutMs) => this.#backend.locks.forceRelease(full, timeoutMs));
    for (const lease of this.#leases) {
      if (released && lease.key.full === full) lease.lose({ reason: 'released' });
    }
    return released;
  }

  held(): readonly Lock[] {
    return [...this.#handles].filter((handle) => handle.held);
  }

  /** Refuses new locks and rejects the waiting with `LockClosedError`. Nested holds of held locks still work. */
  refuse(): void {
    this.#lines.close();
    this.#closed.abort();
  }

  /**
   * Lets the sections in flight finish for at most `timeoutMs`, then aborts the rest; everything held is
   * released. `minHold` is not shortened.
   */
  async drain(timeoutMs: number): Promise<void> {
    this.refuse();
    if (this.#leases.size > 0) await this.#idle(timeoutMs);
    for (const lease of [...this.#leases]) {
      if (lease.state !== 'held') continue;
      lease.lose({ reason: 'shutdown' });
      this.#inBackground(this.#releaser.releaseLost(lease));
    }
    const { promise, cancel } = delay(LAST_RELEASES_WITHIN_MS);
    await Promise.race([this.#lines.idle.then(() => Promise.all([...this.#work])), promise]);
    cancel();
    this.#events.complete();
  }

  #acquire(keys: readonly LockKey[], options: ResolvedLockOptions): Promise<LockHandle> {
    const { signal } = options;
    const budget = new Budget(options.waitTimeoutMs, signal, this.#clock);
    if (signal) {
      if (signal.aborted)
        throw new LockAbortedError(
          keys.map(({ name }) => name),
          signal.reason,
        );
      // one signal may well cancel hundreds of waits
      setMaxListeners(0, signal);
    }
    if (keys.length > 1) {
      return this.#severalKeys.hold(keys, options, budget).then((holds) => this.#handle(holds, budget));
    }
    const key = keys[0]!;
    if (this.#parentOf(key, options)) {
      return this.#hold(key, options, budget).then((hold) => this.#handle([hold], budget));
    }
    // the usual way, kept free of anything that it does not need
    return this.#lines.acquire(key, options, budget, (lease) => this.#handle([rootHold(lease)], budget));
  }

  #handle(holds: readonly Hold[], budget: Budget): LockHandle {
    let fencingToken = 0;
    for (const hold of holds) fencingToken = Math.max(fencingToken, hold.fencingToken);
    const handle = new LockHandle(this, holds, fencingToken);
    if (handle.isRoot) this.#handles.add(handle);
    if (this.#events.observed) this.#tellAcquired(handle, budget.spentMs);
    return handle;
  }

  #tellAcquired({ holds, fencingToken }: LockHandle, waitedMs: number): void {
    for (const { isNested, lease } of holds) {
      const { key, token } = lease;
      if (!isNested) this.#events.emit('acquired', () => ({ key: key.name, token, fencingToken, waitedMs }));
    }
  }

  /** One key: a nested hold where the call chain has it already, else a lease of its own. */
  async #hold(
    key: LockKey,
    options: ResolvedLockOptions,
    budget: Budget,
    terms: LeaseTerms = options,
  ): Promise<Hold> {
    for (let parent = this.#parentOf(key, options); parent; parent = this.#parentOf(key, options)) {
      const nested = await nestedHold(parent, budget, this.#closed.signal);
      if (nested) return nested;
    }
    return this.#lines.acquire(key, terms, budget, rootHold);
  }

  #parentOf(key: LockKey, { reentrant }: ResolvedLockOptions): Hold | undefined {
    if (!reentrant) return undefined;
    const parent = findInChain(this, (lock) => lock.holdOf(key.full));
    return parent?.alive ? parent : undefined;
  }

  handOff(lease: Lease): boolean {
    const { key, token, fencingToken } = lease;
    const heldMs = this.#events.observed ? lease.heldMs : 0;
    if (!this.#lines.handOff(lease)) return false;
    this.#events.emit('released', () => ({ key: key.name, token, fencingToken, heldMs }));
    return true;
  }

  free(lease: Lease): Promise<'released' | 'lost' | 'unanswered'> {
    const { key, token, fencingToken } = lease;
    const heldMs = this.#events.observed ? lease.heldMs : 0;
    // first: no renewal may run behind a release
    this.#watchdog.unwatch(lease);
    if (lease.state !== 'held') {
      return this.#releaser.releaseLost(lease).then(() => {
        this.#forget(lease);
        return 'lost';
      });
    }
    return this.#lines.free(lease).then((answer) => {
      this.#forget(lease);
      if (answer === 'taken') {
        // behind the deadline the lease may just have run out, after the task had settled
        if (lease.validityLeftMs > 0) lease.lose({ reason: 'taken' });
        else lease.done();
        return 'lost';
      }
      lease.done();
      if (answer === 'released') {
        this.#events.emit('released', () => ({ key: key.name, token, fencingToken, heldMs }));
      }
      return answer;
    });
  }

  extend(leases: readonly Lease[], leaseMs: number | undefined): Promise<void> {
    return this.#extender.extend(leases, leaseMs);
  }

  ended(handle: LockHandle): void {
    this.#handles.delete(handle);
  }

  /** A lease that was kept, but came to no hold. */
  async #discard(lease: Lease): Promise<void> {
    this.#watchdog.unwatch(lease);
    lease.beginRelease();
    await this.#releaser.releaseUnheld(lease);
    lease.done();
    this.#forget(lease);
    this.#lines.over(lease);
  }

  #keep(lease: Lease): void {
    this.#leases.add(lease);
    this.#watchdog.watch(lease);
  }

  #forget(lease: Lease): void {
    this.#leases.delete(lease);
    if (this.#leases.size === 0) this.#onIdle?.();
  }

  #leaseLost(lease: Lease, cause: unknown): void {
    this.#watchdog.unwatch(lease);
    const { key, token, fencingToken, heldMs, lost } = lease;
    this.#events.emit('lost', () => ({
      key: key.name,
      token,
      fencingToken,
      heldMs,
      error: new LockLostError([key.name], {
        reason: lost!.reason,
        token,
        fencingToken,
        heldMs,
        ...(cause === undefined ? {} : { cause }),
      }),
    }));
    this.#lines.over(lease);
  }

  #look<T>(ask: (timeoutMs: number) => Promise<T>): Promise<T> {
    return withRetries(this.#backend, { budgetMs: LOOK_BUDGET_MS, tryMs: COMMAND_TIMEOUT_MS }, ask);
  }

  #idle(timeoutMs: number): Promise<void> {
    const { promise, cancel } = delay(timeoutMs);
    const idle = new Promise<void>((resolve) => (this.#onIdle = resolve));
    return Promise.race([idle, promise]).finally(cancel);
  }

  /** Work that nobody awaits: it must never reject unheard, and a shutdown waits for it. */
  #inBackground(work: Promise<unknown>): void {
    const tracked = work
      .catch((error: Error) => this.#events.emit('unavailable', () => ({ key: '', error })))
      .finally(() => this.#work.delete(tracked));
    this.#work.add(tracked);
  }
}

function rootHold(lease: Lease): Hold {
  return new Hold(lease, lease.fencingToken);
}
