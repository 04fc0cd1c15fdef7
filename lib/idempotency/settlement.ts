import { isRedisLockError, type LockLostError } from '../errors.js';
import type { OnError } from './idempotency.js';

/** How far the method of a guarded call came. */
export type HandlerState = 'notCalled' | 'running' | 'succeeded' | 'failed';

/** One guarded call, as the layer that knows calls runs it. */
export interface RunProgress {
  /** The value of everything inside: the lock, the application's interceptors, the method. */
  readonly value: Promise<unknown>;
  handler(): HandlerState;
  /** Resolves when no run of the method goes on any more. Never rejects. */
  readonly settled: Promise<void>;
  outcome(): { value?: unknown; error?: unknown };
}

/** What becomes of the record: the three of `onError`, or done without a reply. */
export type Verdict = OnError | 'tombstone';

/**
 * What becomes of the record of a run that ended in an error.
 *
 * The floor is: work that happened is not done twice. So only an error that the method itself raised is the
 * application's to judge (`onError`); one raised after it had succeeded is never released.
 *
 * @param handler how far the method came; `running` only when nobody will ever know.
 * @param errors the chain's error and the method's own, when there is one.
 */
export function judgeFailure(
  handler: HandlerState,
  errors: readonly unknown[],
  onError: () => OnError,
): Verdict {
  const lost = errors.map(lockLoss).find((error) => error !== undefined);
  if (lost) return handler === 'succeeded' && lost.hasResult ? 'tombstone' : 'hold';
  switch (handler) {
    case 'notCalled':
      // a pipe's 400, a busy lock: nothing was done
      return 'release';
    case 'failed':
      return onError();
    case 'succeeded':
      // a commit or a serialiser failed: whether the work stands is not known, so attempt 2 shall decide
      return 'hold';
    case 'running':
      return 'hold';
  }
}

/**
 * What becomes of the record of a call that was answered while its method still ran (a time-out around it), once
 * the method has settled.
 */
export function judgeLate(
  handler: HandlerState,
  errors: readonly unknown[],
  onError: () => OnError,
): Verdict {
  return handler === 'succeeded' ? 'tombstone' : judgeFailure(handler, errors, onError);
}

/** Also as the cause of what an interceptor made of it. */
function lockLoss(error: unknown): LockLostError | undefined {
  if (isRedisLockError(error, 'LOCK_LOST')) return error as LockLostError;
  const cause = error instanceof Error ? error.cause : undefined;
  return isRedisLockError(cause, 'LOCK_LOST') ? (cause as LockLostError) : undefined;
}
