import type { Clock } from '../lock/validity.js';
import { outsideCallChain } from '../outside-call-chain.js';

/** Node clamps longer timers to 1 ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** What the watchdog looks after: the lease of one run. */
export interface WatchedLease {
  /** When it is to be looked at, by the monotonic clock; `Infinity`: not before it says so. */
  readonly nextAt: number;
  tick(): void;
}

/** One timer for the leases of all runs of this process; none while nothing runs. */
export class RunWatchdog {
  readonly #leases = new Set<WatchedLease>();
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Infinity;

  constructor(private readonly clock: Clock) {}

  watch(lease: WatchedLease): void {
    this.#leases.add(lease);
    this.#arm(lease.nextAt);
  }

  /** Its time is another one now. */
  moved(lease: WatchedLease): void {
    if (this.#leases.has(lease)) this.#arm(lease.nextAt);
  }

  unwatch(lease: WatchedLease): void {
    if (this.#leases.delete(lease) && this.#leases.size === 0) this.#disarm();
  }

  /** How many leases are watched. */
  get size(): number {
    return this.#leases.size;
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
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerAt = Infinity;
  }

  #tick(): void {
    this.#disarm();
    for (const lease of this.#leases) lease.tick();
    for (const lease of this.#leases) this.#arm(lease.nextAt);
  }
}
