/** When a process that waits for a key looks at the store again, if nothing tells it sooner. */

/** Between two looks that stand in the queue: the bound for an expiry, a lost message, a foreign holder. */
export const LOOK_MS = 1_000;
const LEAST_LOOK_MS = 5;
/** Between two looks of a process that may not subscribe: it cannot be woken. */
const DEAF_LOOK_MS = 25;
/** After a failure, or while the inbox is not open: growing up to the longest. */
const FIRST_PAUSE_MS = 25;
const LONGEST_PAUSE_MS = 250;

/** Soon after the holder's lease would end, and within the bound. */
export function lookAfter(holderRemainingMs: number): number {
  if (holderRemainingMs < 0) return LOOK_MS;
  return Math.max(LEAST_LOOK_MS, Math.min(holderRemainingMs + 1 + Math.random() * 9, LOOK_MS));
}

export function lookWhenDeaf(): number {
  return DEAF_LOOK_MS * jitter();
}

export function pauseAfterFailure(failures: number): number {
  return Math.min(FIRST_PAUSE_MS * 1.5 ** failures, LONGEST_PAUSE_MS) * jitter();
}

function jitter(): number {
  return 0.75 + Math.random() * 0.5;
}
