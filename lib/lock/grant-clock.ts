import { PASSED_ON_LEASE_MS, type StoreTime } from '../backend/backend.js';
import { elapsedSince, instant, safetyOf, validityOf, type Clock, type Instant } from './validity.js';

/** Clocks may drift apart by this part of the time between two looks. */
const DRIFT = 0.01;

/** An answered look at the store: the moment before its send, and the store's own time in its answer. */
export interface Look {
  readonly sentAt: Instant;
  readonly time: StoreTime;
  /** The command connection that carried it. */
  readonly epoch: number;
}

/**
 * Tells from when a lease that was passed on to us surely lasts. We cannot know when it began, only bound it
 * from below: the look was answered after its send, and the grant came so much later by the store's own clock.
 * Counted from the receipt of the message instead, a process that was stopped in between would believe in a
 * lease that had ended.
 *
 * @returns the moment; undefined when the clocks cannot be compared, or too little of the lease is left.
 */
export function grantedSince(
  look: Look | undefined,
  grantedAt: StoreTime,
  receivedAt: Instant,
  epoch: number,
  clock: Clock,
): Instant | undefined {
  if (!look || look.epoch !== epoch) return undefined;
  const now = instant(clock);
  const monotonicMs = now.monotonic - look.sentAt.monotonic;
  const wallMs = now.wall - look.sentAt.wall;
  // suspended or stepped since the look
  if (Math.abs(monotonicMs - wallMs) > safetyOf(PASSED_ON_LEASE_MS)) return undefined;
  const laterMs = (grantedAt - look.time) / 1_000;
  if (laterMs < 0) return undefined;
  const afterMs = laterMs * (1 - DRIFT);
  const since: Instant = {
    monotonic: Math.min(look.sentAt.monotonic + afterMs, receivedAt.monotonic),
    wall: Math.min(look.sentAt.wall + afterMs, receivedAt.wall),
  };
  const left = validityOf(PASSED_ON_LEASE_MS) - elapsedSince(since, clock);
  return left >= PASSED_ON_LEASE_MS / 4 ? since : undefined;
}
