import { LockAbortedError } from '../errors.js';
import type { Deadlines, Timed } from './deadlines.js';
import type { Budget } from './budget.js';
import type { Lease, LeaseTerms } from './lease.js';
import type { LockKey } from './lock-key.js';

/** Where a waiter stands. */
export interface WaitingLine {
  /** It leaves without a lease. */
  left(waiter: Waiter): void;
  /** What to say when its time is up. */
  timeoutError(waiter: Waiter): Error;
}

/** One caller that waits for one key. It is told once, and no later than its budget says. */
export class Waiter implements Timed {
  /** Whether the key was found held, and the event sent. */
  contended = false;
  /** Its neighbours in the line. */
  before: Waiter | undefined;
  after: Waiter | undefined;
  #settled = false;
  #deadline: number | undefined;
  #onAbort: (() => void) | undefined;

  constructor(
    readonly key: LockKey,
    readonly terms: LeaseTerms,
    readonly budget: Budget,
    private readonly line: WaitingLine,
    private readonly deadlines: Deadlines,
    /** What a grant leads to, at once: its lease is never without a hold. */
    private readonly granted: (lease: Lease) => void,
    private readonly failed: (error: Error) => void,
  ) {
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
  bound(): void {
    if (this.#settled || this.#deadline !== undefined) return;
    this.#deadline = this.deadlines.enter(this, this.budget.endsAt);
  }

  timeUp(): void {
    this.#deadline = undefined;
    this.fail(this.line.timeoutError(this));
  }

  grant(lease: Lease): void {
    if (this.#settle()) this.granted(lease);
  }

  fail(error: Error): void {
    if (!this.#settle()) return;
    this.failed(error);
    this.line.left(this);
  }

  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    if (this.#deadline !== undefined) this.deadlines.leave(this, this.#deadline);
    if (this.#onAbort) this.budget.signal?.removeEventListener('abort', this.#onAbort);
    return true;
  }
}
