import type { LockStore } from '../backend/backend.js';
import { outsideCallChain } from '../outside-call-chain.js';
import { LONGEST_TIMER_MS } from './delay.js';
import { leaseMsOf, type Lease } from './lease.js';
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
  /** Provisional leases that begin in this turn of the event loop. */
  #fresh: Lease[] = [];

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
    lease.renewAt = lease.provisional ? now : renewalAfter(now, ttlMs);
    this.#leases.add(lease);
    if (lease.provisional) return this.#renewFresh(lease);
    // not later than anything that may come; the tick itself looks closer
    if (now + ttlMs / 4 < this.#timerAt || now + maxHoldMs < this.#timerAt) this.#arm(this.#nextEvent(lease));
  }

  /**
   * A lease that was passed on lasts a moment: extended right after its section started, so that the section
   * starts sooner and one that is over by then costs no command.
   */
  #renewFresh(lease: Lease): void {
    this.#fresh.push(lease);
    if (this.#fresh.length > 1) return;
    outsideCallChain(() =>
      setImmediate(() => {
        const due = this.#fresh.filter((fresh) => this.#leases.has(fresh) && !fresh.renewing);
        this.#fresh = [];
        if (due.length > 0) this.#renew(due);
        for (const renewed of due) this.#arm(this.#nextEvent(renewed));
      }),
    );
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
    const renewal = isRenewed(lease) && !lease.renewing ? lease.renewAt : Infinity;
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
      } else if (!lease.overdue && isRenewed(lease) && !lease.renewing && lease.renewAt <= now) {
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
      due.map((lease) => ({
        key: lease.key.full,
        token: lease.token,
        leaseMs: renewalMs(lease),
        ttlMs: lease.terms.ttlMs,
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
            lease.renewed(sentAt, renewalMs(lease));
            lease.provisional = false;
            lease.renewAt = renewalAfter(sentAt.monotonic, lease.terms.ttlMs);
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

/** A lease that was passed on gets its full length once, whether the watchdog goes on or not. */
function isRenewed(lease: Lease): boolean {
  return lease.autoExtend || lease.provisional;
}

function renewalMs(lease: Lease): number {
  return lease.provisional ? leaseMsOf(lease.terms) : lease.terms.ttlMs;
}

/**
 * ttl/3 after the last renewal was sent; at first a little sooner, so that locks taken at different moments come
 * due together, on a grid, and share a command.
 */
function renewalAfter(sentAt: number, ttlMs: number): number {
  const step = ttlMs / 30;
  return Math.floor(sentAt / step) * step + ttlMs / 3;
}
