import { parseDuration, type Duration } from '../duration.js';
import { LockLostError } from '../errors.js';
import { runUnder, type ChainedLock } from './call-chain.js';
import type { Hold } from './hold.js';
import type { Lease, LeaseListener, LeaseLost } from './lease.js';
import { MIN_TTL_MS } from './lock-options.js';

/** What a handle asks of the manager. */
export interface HandleOwner {
  /** Asks the store to prolong these leases to `leaseMs` from now. */
  extend(leases: readonly Lease[], leaseMs: number | undefined): Promise<void>;
  /** Frees a lease whose last hold ended; tells whether exclusion turned out to have been lost before. */
  free(lease: Lease): Promise<'released' | 'lost' | 'unanswered'>;
  ended(handle: LockHandle): void;
}

/** How a hold ended: what `release` says, and whether exclusion was lost while it lasted. */
export interface HoldEnd {
  answer: 'released' | 'lost';
  lost: LeaseLost | undefined;
}

/** A held lock as its holder sees it: one hold for each key. */
export class LockHandle implements ChainedLock, LeaseListener {
  readonly keys: readonly string[];
  #lost: LeaseLost | undefined;
  #lostError: LockLostError | undefined;
  #controller: AbortController | undefined;
  #end: Promise<HoldEnd> | undefined;

  constructor(
    private readonly owner: HandleOwner,
    /** Sorted by key; never empty. */
    readonly holds: readonly Hold[],
    readonly fencingToken: number,
  ) {
    this.keys = holds.map(({ lease }) => lease.key.name);
    for (const { lease } of holds) lease.listeners.push(this);
  }

  leaseLost(lost: LeaseLost): void {
    if (this.#lost || this.#end) return;
    this.#lost = lost;
    this.#controller?.abort(this.lostError());
  }

  get #first(): Lease {
    return this.holds[0]!.lease;
  }

  get token(): string {
    return this.#first.token;
  }

  /** Whether it holds a grant of the store's, not only shares of an outer lock. */
  get isRoot(): boolean {
    return this.holds.some((hold) => !hold.isNested);
  }

  get heldMs(): number {
    return this.#first.heldMs;
  }

  get signal(): AbortSignal {
    // made on demand: most sections never look at it
    if (!this.#controller) {
      this.#controller = new AbortController();
      this.#noticeDeadline();
      if (this.#lost) this.#controller.abort(this.lostError());
    }
    return this.#controller.signal;
  }

  get remainingMs(): number {
    let remaining = Infinity;
    for (const hold of this.holds) {
      if (hold.ended || hold.lease.state !== 'held') return 0;
      remaining = Math.min(remaining, hold.lease.validityLeftMs);
    }
    if (remaining === 0) this.#noticeDeadline();
    return remaining;
  }

  get held(): boolean {
    return this.remainingMs > 0;
  }

  holdOf(fullKey: string): Hold | undefined {
    return this.holds.find(({ lease }) => lease.key.full === fullKey);
  }

  assertHeld(): void {
    if (this.held) return;
    throw this.lostError();
  }

  run<T>(fn: () => T): T {
    return runUnder(this.owner, this, fn);
  }

  async extend(ttl?: Duration): Promise<void> {
    const leaseMs = ttl === undefined ? undefined : parseDuration(ttl, 'ttl', { min: MIN_TTL_MS });
    this.assertHeld();
    await this.owner.extend(
      this.holds.map(({ lease }) => lease),
      leaseMs,
    );
    this.assertHeld();
  }

  async release(): Promise<'released' | 'lost'> {
    return (await this.end()).answer;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release().then(() => undefined);
  }

  /** As `release`, and says whether exclusion was lost while it lasted. The same answer for every call. */
  end(): Promise<HoldEnd> {
    return (this.#end ??= this.#endHolds());
  }

  async #endHolds(): Promise<HoldEnd> {
    this.#noticeDeadline();
    const before = this.#lostLease();
    let released = true;
    if (this.holds.length === 1) {
      released = await this.#endHold(this.holds[0]!);
    } else {
      const answers = await Promise.all(this.holds.map((hold) => this.#endHold(hold)));
      released = answers.every(Boolean);
    }
    this.owner.ended(this);
    const lost = before ?? this.#lostLease();
    return { answer: lost || !released ? 'lost' : 'released', lost };
  }

  async #endHold(hold: Hold): Promise<boolean> {
    const { lease } = hold;
    const released = !hold.end() || (await this.owner.free(lease)) === 'released';
    lease.listeners.splice(lease.listeners.indexOf(this), 1);
    return released;
  }

  #lostLease(): LeaseLost | undefined {
    for (const { lease } of this.holds) if (lease.lost) return lease.lost;
    return undefined;
  }

  /** Marks the loss if a deadline passed while nothing of ours could run. */
  #noticeDeadline(): void {
    for (const { lease, ended } of this.holds) {
      if (!ended && lease.state === 'held' && lease.validityLeftMs <= 0) lease.lose({ reason: 'expired' });
    }
  }

  /** The loss as an error; `released` when it is merely not held any more. */
  lostError(): LockLostError {
    return (this.#lostError ??= this.makeLostError(this.#lost ?? { reason: 'released' }));
  }

  makeLostError(lost: LeaseLost, outcome?: { result: unknown } | { cause: unknown }): LockLostError {
    const cause = outcome && 'cause' in outcome ? outcome.cause : lost.cause;
    return new LockLostError(this.keys, {
      reason: lost.reason,
      token: this.token,
      fencingToken: this.fencingToken,
      heldMs: this.heldMs,
      ...(cause === undefined ? {} : { cause }),
      ...(outcome && 'result' in outcome ? { outcome } : {}),
    });
  }
}
