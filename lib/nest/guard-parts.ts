import { LockConfigError } from '../errors.js';
import type { GuardSpec, LockDeclaration } from './guard-spec.js';
import type { Holder } from './holder.js';
import type { InstanceRuntime } from './instance-runtime.js';

/** What one call is guarded with. */
export interface GuardParts {
  readonly lock?: { readonly locks: InstanceRuntime['locks']; readonly declaration: LockDeclaration };
  readonly idempotency?: NonNullable<InstanceRuntime['idempotency']>;
}

/**
 * Finds the services behind a method's declarations.
 *
 * @param holderFor the holder of an instance name, if there is one.
 * @throws LockConfigError when one is missing: nothing ever runs unlocked.
 */
export function guardParts(
  spec: GuardSpec,
  holderFor: (name: string | undefined) => Holder | undefined,
): GuardParts {
  const runtimeOf = (name: string | undefined): InstanceRuntime => {
    const holder = holderFor(name);
    if (!holder) throw new LockConfigError({ path: spec.label, message: NOT_BOUND });
    if (!holder.runtime) throw new LockConfigError({ path: spec.label, message: NOT_READY });
    return holder.runtime;
  };

  const parts: { -readonly [K in keyof GuardParts]: GuardParts[K] } = {};
  if (spec.lock) {
    const { locks } = runtimeOf(spec.lock.instance);
    if (typeof locks?.withLock !== 'function') {
      throw new LockConfigError({ path: spec.label, message: NO_SERVICE });
    }
    parts.lock = { locks, declaration: spec.lock };
  }
  if (spec.idempotent) {
    const { idempotency } = runtimeOf(spec.idempotent.instance);
    if (!idempotency) throw new LockConfigError({ path: spec.label, message: NO_IDEMPOTENCY });
    parts.idempotency = idempotency;
  }
  return parts;
}

const IN_TESTS =
  'in a unit test bind one with bindLockService(instance, service), or run it bare with withoutLocks(fn), ' +
  'both from nestjs-redis-lock/testing';
const NOT_BOUND =
  'is decorated, but this object has no lock service: it was not made by Nest with RedisLockModule imported, or ' +
  `the method was taken off its object; ${IN_TESTS}`;
const NOT_READY = 'was called before RedisLockModule was ready: wait until the application is made';
const NO_SERVICE = `the lock service it was given cannot lock (is it an automatic mock?); ${IN_TESTS}`;
const NO_IDEMPOTENCY =
  'is @Idempotent, but this object is bound to a lock service alone; run it in a Nest testing module with ' +
  'RedisLockModule.forRoot({ backend: inMemoryBackend() })';

/** The lock service returned without running what it was given. */
export function neverRan(spec: GuardSpec): LockConfigError {
  return new LockConfigError({ path: spec.label, message: NO_SERVICE });
}
