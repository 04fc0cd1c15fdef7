import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Waits until the predicate gives a truthy value, and returns it. For what has no event to wait for.
 *
 * @param options.timeoutMs bounds hanging; it is never the thing measured. @default 10000
 * @param options.what says in the error what was waited for.
 */
export async function waitFor<T>(
  predicate: () => T | Promise<T>,
  options: { timeoutMs?: number; everyMs?: number; what?: string } = {},
): Promise<NonNullable<T>> {
  const { timeoutMs = 10_000, everyMs = 5, what = 'the condition' } = options;
  const giveUpAt = Date.now() + timeoutMs;
  for (;;) {
    const value = await predicate();
    if (value) return value;
    if (Date.now() > giveUpAt) throw new Error(`waited ${timeoutMs} ms in vain for ${what}`);
    await sleep(everyMs);
  }
}
