import { LockConfigError } from '../errors.js';
import { runBare } from './call-mark.js';
import { bindByHand, createHolder } from './holder.js';
import type { LockService } from './lock.service.js';

/**
 * Gives an object that was built by hand the lock service that its `@DistributedLock` methods use, whatever
 * instance they name. Binding again replaces it.
 *
 * @returns the object.
 */
export function bindLockService<T extends object>(instance: T, service: Pick<LockService, 'withLock'>): T {
  if (typeof service?.withLock !== 'function') {
    throw new LockConfigError({
      path: 'bindLockService',
      message: 'needs a LockService, or something with its withLock()',
    });
  }
  bindByHand(instance, createHolder(undefined, { locks: service }));
  return instance;
}

/**
 * Runs decorated methods bare, without lock and without idempotency, in everything that `fn` calls, also later
 * and asynchronously. For unit tests that are about something else.
 */
export function withoutLocks<T>(fn: () => T): T {
  return runBare(fn);
}
