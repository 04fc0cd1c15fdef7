import type { Backend } from '../backend/backend.js';
import { withRetries } from '../backend/retry.js';
import { LockBusyError, LockClosedError, LockTimeoutError } from '../errors.js';
import type { Budget } from './budget.js';
import { delay } from './delay.js';
import { Hold } from './hold.js';
import type { Lease, LeaseTerms } from './lease.js';
import type { LeaseExtender } from './lease-extender.js';
import type { LockEvents } from './lock-events.js';
import type { LockKey } from './lock-key.js';
import type { ResolvedLockOptions } from './lock-options.js';
import type { TogetherAcquirer } from './together-acquirer.js';

/** What a failed acquisition waits for its own give-back, so that the keys are free when it rejects. */
const GIVE_BACK_WITHIN_MS = 100;

export interface SeveralKeysSettings {
  backend: Backend;
  together: TogetherAcquirer;
  extender: LeaseExtender;
  events: LockEvents;
  /** Takes one key: nested where the call chain has it, else a lease of its own. */
  hold(key: LockKey, options: ResolvedLockOptions, budget: Budget, terms: LeaseTerms): Promise<Hold>;
  /** Whether the call chain has the key. */
  isNested(key: LockKey, options: ResolvedLockOptions): boolean;
  /** Whether somebody of this process waits for the key. */
  isAwaited(key: LockKey): boolean;
  keep(lease: Lease): void;
  /** Gives back a lease that came to no hold. */
  discard(lease: Lease): Promise<void>;
  closed: AbortSignal;
}

/**
 * Several keys: all of them or none. One step of the store where that can do; else, and when waiting, one after
 * the other in sorted order, standing in one line at a time, which cannot deadlock.
 */
export class SeveralKeys {
  constructor(private readonly settings: SeveralKeysSettings) {}

  async hold(keys: readonly LockKey[], options: ResolvedLockOptions, budget: Budget): Promise<Hold[]> {
    const names = keys.map(({ name }) => name);
    const { closed, isNested, isAwaited, backend, events } = this.settings;
    if (closed.aborted && !keys.every((key) => isNested(key, options))) throw new LockClosedError(names);

    const alone = keys.every((key) => !isNested(key, options) && !isAwaited(key));
    if (alone && backend.locks.canAcquireTogether(keys.map(({ full }) => full))) {
      const taken = await this.#together(keys, options, budget);
      if (typeof taken !== 'string') return taken;
      events.emit('contended', () => ({ key: taken }));
      if (budget.timeoutMs === 0) throw new LockBusyError([taken]);
    }
    for (;;) {
      const holds = await this.#inOrder(keys, options, budget);
      if (holds) return holds;
      if (budget.leftMs <= 0) throw new LockTimeoutError(names, budget.spentMs);
    }
  }

  async #together(
    keys: readonly LockKey[],
    options: ResolvedLockOptions,
    budget: Budget,
  ): Promise<Hold[] | string> {
    const leases = await this.settings.together.acquire(keys, options, budget);
    if (typeof leases === 'string') return leases;
    for (const lease of leases) this.settings.keep(lease);
    if (!this.settings.closed.aborted) return leases.map((lease) => new Hold(lease, lease.fencingToken));
    await Promise.all(leases.map((lease) => this.settings.discard(lease)));
    throw new LockClosedError(keys.map(({ name }) => name));
  }

  /** Null when one was lost before the last came. */
  async #inOrder(
    keys: readonly LockKey[],
    options: ResolvedLockOptions,
    budget: Budget,
  ): Promise<Hold[] | null> {
    const holds: Hold[] = [];
    try {
      // renewed while it waits for the others, whatever the options say of the time after that
      const whileWaiting: LeaseTerms = { ...options, autoExtend: true };
      for (const key of keys) holds.push(await this.settings.hold(key, options, budget, whileWaiting));
      await this.#complete(holds, options, budget);
    } catch (error) {
      await this.#giveBack(holds);
      throw error;
    }
    if (holds.every(({ alive }) => alive)) return holds;
    await this.#giveBack(holds);
    return null;
  }

  /** Raises every key's fencing counter to the largest token before the acquisition counts. */
  async #complete(holds: readonly Hold[], options: ResolvedLockOptions, budget: Budget): Promise<void> {
    const { backend, extender } = this.settings;
    const fencingToken = Math.max(...holds.map((hold) => hold.fencingToken));
    const behind = holds.filter((hold) => hold.fencingToken < fencingToken);
    if (behind.length > 0) {
      const budgetMs = Math.max(budget.leftMs, GIVE_BACK_WITHIN_MS);
      await withRetries(backend, { budgetMs }, (timeoutMs) =>
        backend.locks.raiseFence(
          behind.map(({ lease }) => ({ key: lease.key.full, fencingToken, ttlMs: lease.terms.ttlMs })),
          timeoutMs,
        ),
      );
    }
    const own = holds.filter((hold) => !hold.isNested).map(({ lease }) => lease);
    if (!options.autoExtend) await extender.extend(own);
    for (const lease of own) lease.startHold(options.autoExtend);
  }

  async #giveBack(holds: readonly Hold[]): Promise<void> {
    const { promise, cancel } = delay(GIVE_BACK_WITHIN_MS);
    const back = holds.map((hold) => (hold.end() ? this.settings.discard(hold.lease) : undefined));
    await Promise.race([Promise.all(back), promise]);
    cancel();
  }
}
