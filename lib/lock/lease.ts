import { PASSED_ON_LEASE_MS } from '../backend/backend.js';
import type { LockLostReason } from '../errors.js';
import type { LockKey } from './lock-key.js';
import { elapsedBetween, elapsedSince, instant, validityOf, type Clock, type Instant } from './validity.js';

/** What a lease is told once it is lost. */
export type LeaseLost = { reason: LockLostReason; cause?: unknown };

export interface LeaseListener {
  leaseLost(lost: LeaseLost): void;
}

export type LeaseState = 'held' | 'releasing' | 'done' | 'lost';

/** What of the options concerns the lease in the store. */
export interface LeaseTerms {
  ttlMs: number;
  autoExtend: boolean;
  maxHoldMs: number;
  minHoldMs: number;
  handoff: boolean;
}

/** How long the key is written for: `minHold` must outlive a killed process too. */
export function leaseMsOf(terms: LeaseTerms): number {
  return Math.max(terms.ttlMs, terms.minHoldMs);
}

/** What the store granted, and to which question. */
export interface Grant {
  key: LockKey;
  token: string;
  fencingToken: number;
  terms: LeaseTerms;
  /** From when the lease surely lasts: before the send of the command that was granted. */
  sentAt: Instant;
  /** How long the store keeps it. */
  leaseMs: number;
  /** How many fencing tokens are reserved, the first included: so many holds the lease may carry. */
  block: number;
  /** An earlier try for this token was never answered. */
  doubtful: boolean;
}

/** A hand-off turn: then those who wait elsewhere are asked for. */
const TURN_MS = 20;

/**
 * One grant by the store to this process: the token under the key, and how long it may be believed.
 * It carries one hold (and that hold's nested ones) at a time, and with hand-off up to a block of them in a row.
 */
export class Lease {
  #state: LeaseState = 'held';
  #lost: LeaseLost | undefined;
  /** The send from which the validity counts, and how long that is. */
  #renewedAt: Instant;
  #validMs: number;
  /** Since when it is held: from before the send, or, with several keys, since the last of them was granted. */
  #heldSince: Instant;
  /** Whether the watchdog renews it. */
  autoExtend: boolean;
  /** By the monotonic clock: when the watchdog renews it next. */
  renewAt = Infinity;
  /** A renewal is on its way. */
  renewing = false;
  /** `maxHold` passed: no renewal any more, the key goes with its lease. */
  overdue = false;
  /** Holds that are not ended: the key is freed when the last one ends. */
  holds = 0;
  /** Told when the lease is lost or overdue: a handle for each hold. */
  readonly listeners: LeaseListener[] = [];

  readonly key: LockKey;
  readonly token: string;
  /** The fencing token and the terms of the hold that it carries now. */
  fencingToken: number;
  terms: LeaseTerms;
  /** It was passed on to us and lasts a moment only: the watchdog extends it to its full length at once. */
  provisional: boolean;
  readonly #turnSince: Instant;
  #lastFencingToken: number;
  /** The shortest life that the store gave it: a hand-off needs a quarter of that. */
  readonly #leastLeaseMs: number;
  /** An earlier try for this token was never answered: it must be abandoned afterwards. */
  readonly doubtful: boolean;

  constructor(
    grant: Grant,
    private readonly clock: Clock,
    /** Told first, once, when it is lost: takes it out of the watchdog, sends the event. */
    private readonly onLost: (lease: Lease, lost: LeaseLost) => void,
  ) {
    this.key = grant.key;
    this.token = grant.token;
    this.fencingToken = grant.fencingToken;
    this.terms = grant.terms;
    this.doubtful = grant.doubtful;
    this.#renewedAt = grant.sentAt;
    this.#heldSince = grant.sentAt;
    this.autoExtend = grant.terms.autoExtend;
    this.#validMs = validityOf(grant.leaseMs);
    this.provisional = grant.leaseMs < leaseMsOf(grant.terms);
    this.#turnSince = instant(clock);
    this.#lastFencingToken = grant.fencingToken + grant.block - 1;
    this.#leastLeaseMs = Math.min(grant.leaseMs, PASSED_ON_LEASE_MS);
  }

  get state(): LeaseState {
    return this.#state;
  }

  /** Why it was lost; undefined while it is not. */
  get lost(): LeaseLost | undefined {
    return this.#lost;
  }

  /** The validity left by the clocks, whatever the state; never below 0. */
  get validityLeftMs(): number {
    return Math.max(0, this.#validMs - elapsedSince(this.#renewedAt, this.clock));
  }

  get heldMs(): number {
    return elapsedSince(this.#heldSince, this.clock);
  }

  /**
   * The hold begins now: what came before was waiting for other keys. Their fencing tokens may be above the
   * rest of this one's block, which therefore ends here.
   */
  startHold(autoExtend: boolean): void {
    this.#heldSince = this.now();
    this.autoExtend = autoExtend;
    this.#lastFencingToken = this.fencingToken;
  }

  /** What is left of `minHold`; 0 without one. */
  get minHoldLeftMs(): number {
    return this.terms.minHoldMs > 0 ? Math.max(0, Math.ceil(this.terms.minHoldMs - this.heldMs)) : 0;
  }

  /** A renewal that was sent at `sentAt` succeeded. The deadline only ever grows. */
  renewed(sentAt: Instant, leaseMs: number): void {
    const validMs = validityOf(leaseMs);
    if (validMs - elapsedSince(sentAt, this.clock) > this.validityLeftMs) {
      this.#renewedAt = sentAt;
      this.#validMs = validMs;
    }
  }

  /** Whether a waiter of this process may have it next without asking the store. */
  canHandOffTo(terms: LeaseTerms, now: Instant): boolean {
    const mine = this.terms;
    return (
      this.#state === 'held' &&
      this.holds === 0 &&
      terms.handoff &&
      mine.handoff &&
      terms.ttlMs === mine.ttlMs &&
      terms.autoExtend === mine.autoExtend &&
      terms.minHoldMs === 0 &&
      mine.minHoldMs === 0 &&
      this.fencingToken < this.#lastFencingToken &&
      elapsedBetween(this.#turnSince, now) < TURN_MS &&
      this.#validMs - elapsedBetween(this.#renewedAt, now) >= this.#leastLeaseMs / 4
    );
  }

  /** The next hold in a row begins: with its own fencing token, its own time, its own listeners. */
  handOff(terms: LeaseTerms, now: Instant): void {
    this.fencingToken++;
    this.terms = terms;
    this.overdue = false;
    this.listeners.length = 0;
    this.#heldSince = now;
  }

  /** Where a renewal's validity counts from. */
  now(): Instant {
    return instant(this.clock);
  }

  /** Leaves `held`, by its holder. False when it was not held any more. */
  beginRelease(): boolean {
    if (this.#state !== 'held') return false;
    this.#state = 'releasing';
    return true;
  }

  done(): void {
    if (this.#state === 'releasing') this.#state = 'done';
  }

  /** Marks the loss; only the first counts. */
  lose(lost: LeaseLost): boolean {
    if (this.#state === 'done' || this.#state === 'lost') return false;
    this.#state = 'lost';
    // its validity ran out because maxHold had ended its renewals
    this.#lost = this.overdue && lost.reason === 'expired' ? { reason: 'maxHold' } : lost;
    this.onLost(this, this.#lost);
    this.tell(this.#lost);
    return true;
  }

  /** Tells the holds, which abort their signals. */
  tell(lost: LeaseLost): void {
    for (const listener of [...this.listeners]) listener.leaseLost(lost);
  }
}
