/** Node clamps longer timers to 1 ms. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** A pause that can be cancelled, so that no timer is left behind. */
export function delay(ms: number): { promise: Promise<void>; cancel(): void } {
  let timer: NodeJS.Timeout | undefined;
  const promise = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.min(ms, LONGEST_TIMER_MS));
  });
  return { promise, cancel: () => clearTimeout(timer) };
}

/** What the work comes to, or `late` when that takes longer than `ms`. */
export function within<T, L>(work: Promise<T>, ms: number, late: L): Promise<T | L> {
  const { promise, cancel } = delay(ms);
  return Promise.race([work, promise.then(() => late)]).finally(cancel);
}
