/** The two clocks that count. Injected where a test must steer time. */
export interface Clock {
  /** Never steps, but may stand still while the machine sleeps. Milliseconds. */
  monotonic(): number;
  /** May be stepped by NTP, but counts while the machine sleeps. Milliseconds. */
  wall(): number;
}

export const systemClock: Clock = {
  monotonic: () => performance.now(),
  wall: () => Date.now(),
};

/** A moment by both clocks. */
export interface Instant {
  readonly monotonic: number;
  readonly wall: number;
}

export function instant(clock: Clock): Instant {
  return { monotonic: clock.monotonic(), wall: clock.wall() };
}

/**
 * Milliseconds since a moment: the larger of what the two clocks say. A suspended machine counts (by the wall
 * clock), and a stepped wall clock ends a lock early by no more than the step.
 */
export function elapsedSince(since: Instant, clock: Clock): number {
  return Math.max(clock.monotonic() - since.monotonic, clock.wall() - since.wall);
}

/** As {@link elapsedSince}, at a moment that was read already. */
export function elapsedBetween(since: Instant, now: Instant): number {
  return Math.max(now.monotonic - since.monotonic, now.wall - since.wall);
}

/**
 * How much of a lease may be believed, counted from BEFORE its command was sent: the lease less the clocks'
 * drift (Redlock's 1 % + 2 ms rule of thumb, the larger) and a margin in which the holder can still react.
 *
 * @see https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
 */
export function validityOf(leaseMs: number): number {
  const drift = Math.max(leaseMs * 0.01, 2);
  return leaseMs - drift - safetyOf(leaseMs);
}

/** The margin kept for reacting: 5 % of the lease, at most half a second. */
export function safetyOf(leaseMs: number): number {
  return Math.min(leaseMs * 0.05, 500);
}
