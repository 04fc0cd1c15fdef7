import type { Backend } from '../backend/backend.js';
import { LockAbortedError, type StoreUnavailableError } from '../errors.js';
import { withRetries } from '../backend/retry.js';
import type { Budget } from './budget.js';
import { leaseMsOf, type Grant, type Lease, type LeaseTerms } from './lease.js';
import type { LockEvents } from './lock-events.js';
import type { LockKey } from './lock-key.js';
import type { TokenSource } from './token-source.js';
import { instant, type Clock } from './validity.js';

const COMMAND_TIMEOUT_MS = 1_000;

export interface TogetherAcquirerSettings {
  backend: Backend;
  tokens: TokenSource;
  events: LockEvents;
  clock: Clock;
  lease(grant: Grant): Lease;
  giveBack(lease: Lease): void;
  background(work: Promise<unknown>): void;
}

/** Takes several free keys in one step of the store: all or none. */
export class TogetherAcquirer {
  constructor(private readonly settings: TogetherAcquirerSettings) {}

  /** @returns the leases, or the name of a key that is held. */
  async acquire(keys: readonly LockKey[], terms: LeaseTerms, budget: Budget): Promise<Lease[] | string> {
    const { signal } = budget;
    const work = this.#ask(keys, terms, budget);
    if (!signal) return work;
    let onAbort!: () => void;
    const aborted = new Promise<never>((_resolve, reject) => {
      onAbort = () =>
        reject(
          new LockAbortedError(
            keys.map(({ name }) => name),
            signal.reason,
          ),
        );
      signal.addEventListener('abort', onAbort, { once: true });
    });
    try {
      return await Promise.race([work, aborted]);
    } catch (error) {
      // nobody waits any more: what is granted all the same goes back
      this.settings.background(
        work.then(
          (leases) => typeof leases === 'string' || leases.forEach((lease) => this.settings.giveBack(lease)),
          () => undefined,
        ),
      );
      throw error;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  async #ask(keys: readonly LockKey[], terms: LeaseTerms, budget: Budget): Promise<Lease[] | string> {
    const { backend, tokens, clock, events } = this.settings;
    const requests = keys.map(({ full }) => ({
      key: full,
      token: tokens.next(),
      leaseMs: leaseMsOf(terms),
      ttlMs: terms.ttlMs,
    }));
    let sentAt = instant(clock);
    let doubtful = false;
    const once = async (timeoutMs: number) => {
      sentAt = instant(clock);
      try {
        return await backend.locks.acquireAll(requests, timeoutMs);
      } catch (error) {
        doubtful ||= (error as StoreUnavailableError).outcome !== 'notApplied';
        throw error;
      }
    };
    const abandonAll = (): void => {
      if (!doubtful) return;
      for (const request of requests) this.settings.background(backend.locks.abandon(request));
    };
    try {
      const reply = await (budget.timeoutMs === 0
        ? once(COMMAND_TIMEOUT_MS)
        : withRetries(
            backend,
            { budgetMs: budget.leftMs, ...(budget.signal ? { signal: budget.signal } : {}) },
            once,
          ));
      if (reply.status === 'busy') {
        abandonAll();
        return keys.find(({ full }) => full === reply.key)?.name ?? keys[0]!.name;
      }
      const { fencingToken } = reply;
      const leases = keys.map((key, index) =>
        this.settings.lease({
          key,
          token: requests[index]!.token,
          fencingToken,
          terms,
          sentAt,
          leaseMs: leaseMsOf(terms),
          // another key's counter may be far ahead: no hand-off on a part of them
          block: 1,
          doubtful,
        }),
      );
      if (leases.every((lease) => lease.validityLeftMs > 0)) return leases;
      for (const lease of leases) this.settings.giveBack(lease);
      return keys[0]!.name;
    } catch (error) {
      abandonAll();
      events.emit('unavailable', () => ({ key: keys[0]!.name, error: error as Error }));
      throw error;
    }
  }
}
