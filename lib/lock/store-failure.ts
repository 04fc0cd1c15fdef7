import { StoreUnavailableError, isRedisLockError } from '../errors.js';
import type { LockKey } from './lock-key.js';

export function isFailure(answer: unknown): answer is StoreUnavailableError {
  return isRedisLockError(answer, 'STORE_UNAVAILABLE');
}

/** A backend must reject with a StoreUnavailableError; anything else is a fault whose outcome nobody knows. */
export function asFailure(error: unknown, key: LockKey): StoreUnavailableError {
  if (isFailure(error)) return error;
  return new StoreUnavailableError('The store failed in an unexpected way.', {
    keys: key.name,
    cause: error,
    outcome: 'unknown',
  });
}
