import { LockAbortedError } from '../errors.js';
import { outsideCallChain } from '../outside-call-chain.js';
import { LONGEST_TIMER_MS } from './delay.js';
import type { Budget } from './budget.js';
import type { Lease, LeaseTerms } from './lease.js';
import type { LockKey } from './lock-key.js';

/** One caller that waits for one key. Its promise settles once, and no later than its budget says. */
export class Waiter {
  /** The token its lease will have; a new one after each that was given up. */
  token: string;
  /** A try with this token was never answered. */
  doubtful = false;
  /** Whether the key was found held, and the event sent. */
  contended = false;
  /** Its neighbours in the line. */
  before: Waiter | undefined;
  after: Waiter | undefined;
  readonly promise: Promise<Lease>;
  #resolve!: (lease: Lease) => void;
  #reject!: (error: Error) => void;
  #settled = false;
  #timer: NodeJS.Timeout | undefined;
  #onAbort: (() => void) | undefined;

  constructor(
    readonly key: LockKey,
    readonly terms: LeaseTerms,
    readonly budget: Budget,
    token: string,
    /** Told when it leaves without a lease. */
    private readonly owner: { left(waiter: Waiter): void },
  ) {
    this.token = token;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { signal } = budget;
    if (!signal) return;
    this.#onAbort = () => this.fail(new LockAbortedError([key.name], signal.reason));
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** Nobody waits for its lease any more. */
  get settled(): boolean {
    return this.#settled;
  }

  /** Begins to watch the time; without contention the command's own time-out is bound enough. */
  bound(onTimeout: () => Error): void {
    if (this.#settled || this.#timer || this.budget.leftMs > LONGEST_TIMER_MS) return;
    this.#timer = outsideCallChain(() => setTimeout(() => this.fail(onTimeout()), this.budget.leftMs));
  }

  grant(lease: Lease): void {
    if (this.#settle()) this.#resolve(lease);
  }

  fail(error: Error): void {
    if (!this.#settle()) return;
    this.#reject(error);
    this.owner.left(this);
  }

  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    clearTimeout(this.#timer);
    if (this.#onAbort) this.budget.signal?.removeEventListener('abort', this.#onAbort);
    return true;
  }
}
