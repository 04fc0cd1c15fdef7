import { fillKeyTemplate } from '../call/key-template.js';
import { isRedisLockError, LockKeyError, type LockBusyError } from '../errors.js';
import type { Lock, LockOptions } from '../lock/lock.js';
import type { CallContext } from './call-context.js';
import { neverRan, type GuardParts } from './guard-parts.js';
import type { GuardSpec, LockDeclaration } from './guard-spec.js';

/**
 * Runs a task under the lock that a method declares, or as it is when it declares none.
 *
 * @param signal cancels the waiting.
 */
export class LockedTask {
  /** The error that the acquisition failed with; never one of the task's. */
  refusal: unknown;

  constructor(
    private readonly spec: GuardSpec,
    private readonly lock: GuardParts['lock'],
    private readonly call: CallContext,
  ) {}

  async run<T>(task: (lock?: Lock) => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (!this.lock) return task();
    const { locks, declaration } = this.lock;
    let begun = false;
    try {
      const result = await locks.withLock(
        keyOf(declaration, this.call),
        (lock) => {
          begun = true;
          return task(lock);
        },
        withSignal(declaration.options, signal),
      );
      if (!begun) throw neverRan(this.spec);
      return result;
    } catch (error) {
      if (!begun) this.refusal = error;
      throw error;
    }
  }

  /**
   * What becomes of an error, by `onBusy`: only of a busy lock of ours, never of one that the method met.
   *
   * @returns the value to answer with instead, in an object; undefined: the error stays.
   */
  async insteadOf(error: unknown): Promise<{ value: unknown } | undefined> {
    const onBusy = this.lock?.declaration.onBusy;
    if (error === undefined || error !== this.refusal || !isBusy(error)) return undefined;
    if (onBusy === 'skip') return { value: undefined };
    return typeof onBusy === 'function' ? { value: await onBusy(error, this.call) } : undefined;
  }
}

function keyOf({ key }: LockDeclaration, call: CallContext): string | readonly string[] {
  if (typeof key !== 'function') return fillKeyTemplate(key, call);
  try {
    return key(call);
  } catch (error) {
    // Reading a field of something that the caller left out is the caller's fault, not the server's.
    if (!(error instanceof TypeError)) throw error;
    throw new LockKeyError(`The key cannot be built from this call: ${error.message}.`, { cause: error });
  }
}

function withSignal(options: LockOptions, signal: AbortSignal | undefined): LockOptions {
  if (!signal) return options;
  return { ...options, signal: options.signal ? AbortSignal.any([options.signal, signal]) : signal };
}

function isBusy(error: unknown): error is LockBusyError {
  return isRedisLockError(error, 'LOCK_BUSY') || isRedisLockError(error, 'LOCK_TIMEOUT');
}
