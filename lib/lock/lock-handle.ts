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
  /** Gives a lease whose last hold ended to the next waiter of this process, if there is one that may have it so. */
  handOff(lease: Lease): boolean;
  /** Frees a lease whose last hold ended; tells whether exclusion turned out to have been lost before. */
  free(lease: Lease): Promise<'released' | 'lost' | 'unanswered'>;
  ended(handle: LockHandle): void;
}

/** How a hold ended: what `release` says, and whether exclusion was lost while it lasted. */
export interface HoldEnd {
  answer: 'released' | 'lost';
  lost: LeaseLost | undefined;
}

const RELEASED: HoldEnd = { answer: 'released', lost: undefined };
/** A hand-off is over at once: no promise need be made for it. */
const HANDED_OFF = Promise.resolve(RELEASED);
const SAID_RELEASED = Promise.resolve<'released' | 'lost'>('released');

/** A held lock as its holder sees it: one hold for each key. */
export class LockHandle implements ChainedLock, LeaseListener {
  #keys: readonly string[] | undefined;
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
    for (const { lease } of holds) {
      lease.listeners.push(this);
      // lost between its grant and now
      if (lease.lost) this.#lost ??= lease.lost;
    }
  }

  leaseLost(lost: LeaseLost): void {
    if (this.#lost || this.#end) return;
    this.#lost = lost;
    this.#controller?.abort(this.lostError());
  }

  get #first(): Lease {
    return this.holds[0]!.lease;
  }

  get keys(): readonly string[] {
    return (this.#keys ??= this.holds.map(({ lease }) => lease.key.name));
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

  release(): Promise<'released' | 'lost'> {
    const end = this.end();
    return end === HANDED_OFF ? SAID_RELEASED : end.then(({ answer }) => answer);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release().then(() => undefined);
  }

  /** As `release`, and says whether exclusion was lost while it lasted. The same answer for every call. */
  end(): Promise<HoldEnd> {
    if (this.#end) return this.#end;
    this.#noticeDeadline();
    const hold = this.holds[0];
    if (this.holds.length > 1 || !hold || hold.lease.lost) return (this.#end = this.#endHolds());
    const isLast = this.#leave(hold);
    if (!isLast || !this.owner.handOff(hold.lease)) return (this.#end = this.#endAlone(hold.lease, isLast));
    this.owner.ended(this);
    return (this.#end = HANDED_OFF);
  }

  #endAlone(lease: Lease, isLast: boolean): Promise<HoldEnd> {
    if (!isLast) {
      this.owner.ended(this);
      return Promise.resolve(RELEASED);
    }
    return this.#free(lease, () => this.owner.ended(this));
  }

  async #endHolds(): Promise<HoldEnd> {
    const ends = await Promise.all(this.holds.map((hold) => this.#endHold(hold)));
    this.owner.ended(this);
    const lost = ends.find((end) => end.lost)?.lost;
    return { answer: ends.every(({ answer }) => answer === 'released') ? 'released' : 'lost', lost };
  }

  async #endHold(hold: Hold): Promise<HoldEnd> {
    const { lost } = hold.lease;
    const end = this.#leave(hold) ? await this.#free(hold.lease) : RELEASED;
    return lost ? { answer: 'lost', lost } : end;
  }

  /** What comes after belongs to the next hold: with hand-off the lease goes on. True for the last of a lease. */
  #leave(hold: Hold): boolean {
    const { listeners } = hold.lease;
    const at = listeners.indexOf(this);
    if (at >= 0) listeners.splice(at, 1);
    return hold.end();
  }

  #free(lease: Lease, ended?: () => void): Promise<HoldEnd> {
    return this.owner.free(lease).then((answer) => {
      ended?.();
      if (answer === 'released') return RELEASED;
      return { answer: 'lost', lost: answer === 'lost' ? lease.lost : undefined };
    });
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
