import { setTimeout as sleep } from 'node:timers/promises';
import { isRedisLockError, StoreUnavailableError } from '../errors.js';
import type { Backend } from './backend.js';

export interface RetryOptions {
  /** Bounds all tries, pauses and waiting for a connection, in milliseconds. */
  budgetMs: number;
  /**
   * Bounds one try, in milliseconds.
   * @default 1000
   */
  tryMs?: number;
  /** Ends the retries early: a try under way still counts, no other one is started. */
  signal?: AbortSignal;
}

const TRY_MS = 1_000;
/** A try with less time than this would only turn "was not applied" into "unknown". */
const SHORTEST_TRY_MS = 25;
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 250;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Repeats one operation until the store answers or the budget is spent. Only for operations that are safe to
 * repeat: each try must carry the same token, owner, operation id or call id.
 *
 * Repeated is what the store calls retryable and what was never answered; anything else rejects at once.
 *
 * @param attempt one try, which must end within the given milliseconds.
 * @throws StoreUnavailableError whose outcome is `'unknown'` when any of the tries was never answered, although
 *   the last one surely was not applied.
 */
export async function withRetries<T>(
  backend: Pick<Backend, 'whenReady'>,
  options: RetryOptions,
  attempt: (timeoutMs: number) => Promise<T>,
): Promise<T> {
  const { budgetMs, tryMs = TRY_MS, signal } = options;
  const startedAt = performance.now();
  const left = (): number => budgetMs - (performance.now() - startedAt);
  let unanswered = false;
  let tries = 0;

  const giveUp = (last: StoreUnavailableError): StoreUnavailableError => {
    const waitedMs = Math.round(performance.now() - startedAt);
    const effort = `${tries === 1 ? '1 try' : `${tries} tries`} in ${waitedMs} ms`;
    return new StoreUnavailableError(
      unanswered
        ? `${last.message} (${effort}; a try was never answered, so the outcome is unknown: it may have been carried out)`
        : `${last.message} (${effort}; nothing was carried out)`,
      {
        keys: last.keys,
        cause: last,
        outcome: unanswered ? 'unknown' : 'notApplied',
        retryable: last.retryable,
      },
    );
  };

  if (signal?.aborted) {
    throw new StoreUnavailableError('Given up before the store was asked.', { cause: signal.reason });
  }
  for (;;) {
    const roomMs = Math.max(left(), 1);
    tries++;
    try {
      return await attempt(Math.min(tryMs, roomMs));
    } catch (error) {
      if (!isStoreUnavailable(error)) throw error;
      unanswered ||= error.outcome === 'unknown';
      if (!error.retryable && error.outcome === 'notApplied') throw unanswered ? giveUp(error) : error;
      if (!(await mayTryAgain())) throw giveUp(error);
    }
  }

  async function mayTryAgain(): Promise<boolean> {
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(tries - 1, 8), LONGEST_PAUSE_MS);
    const jitteredMs = pauseMs * (0.5 + Math.random() / 2);
    if (signal?.aborted || left() - jitteredMs < SHORTEST_TRY_MS) return false;
    try {
      await sleep(jitteredMs, undefined, { ref: false, ...(signal ? { signal } : {}) });
      await untilAborted(backend.whenReady(Math.min(left(), LONGEST_TIMER_MS)), signal);
    } catch {
      // Not ready in time, or aborted: the operation's own error tells more than either.
      return false;
    }
    return left() >= SHORTEST_TRY_MS;
  }
}

/** Tells the one error that an operation of a backend may end with. */
export function isStoreUnavailable(error: unknown): error is StoreUnavailableError {
  return isRedisLockError(error, 'STORE_UNAVAILABLE');
}

async function untilAborted(ready: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (!signal) return ready;
  let onAbort: (() => void) | undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
  });
  try {
    await Promise.race([ready, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort!);
    ready.catch(() => undefined);
  }
}
