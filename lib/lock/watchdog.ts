import type { LockStore } from '../backend/backend.js';
import { outsideCallChain } from '../outside-call-chain.js';
import { LONGEST_TIMER_MS } from './delay.js';
import type { Lease } from './lease.js';
import { instant, type Clock } from './validity.js';

const RETRY_AT_MOST_MS = 250;
/** Between two tries, also when the store can be asked again at once. */
const RETRY_AT_LEAST_MS = 20;
const COMMAND_TIMEOUT_MS = 1_000;

export interface WatchdogHooks {
  /** `maxHold` passed; the lease is still valid, but not renewed any more. */
  overdue(lease: Lease): void;
  extendFailed(lease: Lease, error: Error): void;
}

/**
 * Keeps held leases alive: each is renewed every ttl/3, and all that are due go out together. One timer serves
 * all of them; it also fires the loss at a deadline that no renewal could move, and `maxHold`.
 */
export class Watchdog {
  readonly #leases = new Set<Lease>();
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Infinity;

  constructor(
    private readonly store: LockStore,
    private readonly hooks: WatchdogHooks,
    private readonly whenReady: (timeoutMs: number) => Promise<void>,
    private readonly clock: Clock,
  ) {}

  /** How many leases are watched. */
  get size(): number {
    return this.#leases.size;
  }

  watch(lease: Lease): void {
    const now = this.clock.monotonic();
    const { ttlMs, maxHoldMs } = lease.terms;
    lease.renewAt = renewalAfter(now, ttlMs);
    this.#leases.add(lease);
    // not later than anything that may come; the tick itself looks closer
    if (now + ttlMs / 4 < this.#timerAt || now + maxHoldMs < this.#timerAt) this.#arm(this.#nextEvent(lease));
  }

  /** Must be called before a release is sent. */
  unwatch(lease: Lease): void {
    this.#leases.delete(lease);
    if (this.#leases.size === 0) this.#disarm();
  }

  #nextEvent(lease: Lease): number {
    const now = this.clock.monotonic();
    const deadline = now + lease.validityLeftMs;
    if (lease.overdue) return deadline;
    const renewal = lease.autoExtend && !lease.renewing ? lease.renewAt : Infinity;
    return Math.min(deadline, now + lease.terms.maxHoldMs - lease.heldMs, renewal);
  }

  #arm(at: number): void {
    if (at >= this.#timerAt) return;
    this.#disarm();
    this.#timerAt = at;
    const delay = Math.min(Math.max(0, Math.floor(at - this.clock.monotonic())), LONGEST_TIMER_MS);
    this.#timer = outsideCallChain(() => setTimeout(() => this.#tick(), delay));
    this.#timer.unref();
  }

  #disarm(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerAt = Infinity;
  }

  #tick(): void {
    this.#disarm();
    const now = this.clock.monotonic();
    const due: Lease[] = [];
    for (const lease of this.#leases) {
      if (lease.validityLeftMs < 1) {
        // less than a timer can wait for: not later than the deadline
        lease.lose({ reason: 'expired' });
      } else if (!lease.overdue && lease.heldMs >= lease.terms.maxHoldMs) {
        lease.overdue = true;
        this.hooks.overdue(lease);
      } else if (!lease.overdue && lease.autoExtend && !lease.renewing && lease.renewAt <= now) {
        due.push(lease);
      }
    }
    if (due.length > 0) this.#renew(due);
    for (const lease of this.#leases) this.#arm(this.#nextEvent(lease));
  }

  /** After a pause, or as soon as a lost connection is back. */
  #retryLater(lease: Lease): void {
    const pauseMs = Math.min(lease.terms.ttlMs / 10, RETRY_AT_MOST_MS);
    lease.renewAt = this.clock.monotonic() + pauseMs;
    void this.whenReady(pauseMs).then(
      () => {
        const soon = this.clock.monotonic() + RETRY_AT_LEAST_MS;
        if (lease.renewing || lease.renewAt <= soon || !this.#leases.has(lease)) return;
        lease.renewAt = soon;
        this.#arm(soon);
      },
      () => undefined,
    );
  }

  #renew(due: readonly Lease[]): void {
    const sentAt = instant(this.clock);
    // a try must leave time for another one before the deadline
    const timeoutMs = Math.min(COMMAND_TIMEOUT_MS, ...due.map(({ terms }) => Math.max(20, terms.ttlMs / 5)));
    for (const lease of due) lease.renewing = true;
    const replies = this.store.extend(
      due.map(({ key, token, terms }) => ({
        key: key.full,
        token,
        leaseMs: terms.ttlMs,
        ttlMs: terms.ttlMs,
      })),
      timeoutMs,
    );
    due.forEach((lease, index) => {
      void replies[index]!.then(
        (reply) => {
          lease.renewing = false;
          // released or lost while the renewal was on its way: it must not revive it
          if (lease.state !== 'held') return;
          if (reply === 'extended') {
            lease.renewed(sentAt, lease.terms.ttlMs);
            lease.renewAt = renewalAfter(this.clock.monotonic(), lease.terms.ttlMs);
          } else {
            lease.lose({ reason: 'taken' });
          }
        },
        (error: Error) => {
          lease.renewing = false;
          if (lease.state !== 'held') return;
          this.#retryLater(lease);
          this.hooks.extendFailed(lease, error);
        },
      ).then(() => {
        if (this.#leases.has(lease)) this.#arm(this.#nextEvent(lease));
      });
    });
  }
}

/**
 * ttl/3 from now, rounded up to a tenth of that, so that locks taken at different moments come due together and
 * share a command. Rounding up keeps it at one renewal per ttl/3 at most.
 */
function renewalAfter(now: number, ttlMs: number): number {
  const step = ttlMs / 30;
  return Math.ceil((now + ttlMs / 3) / step) * step;
}
