import { parseKeyTemplate, type KeyTemplate, type ParsedKeyTemplate } from '../../call/key-template.js';
import { isRedisLockError, type ConfigFault, type LockBusyError } from '../../errors.js';
import { lockKey } from '../../lock/lock-key.js';
import { collectLockOptions, LOCK_DEFAULTS } from '../../lock/lock-options.js';
import type { LockOptions } from '../../lock/lock.js';
import type { CallContext } from '../call-context.js';
import type { GuardSpec, KeyFunction, LockDeclaration, OnBusy } from '../guard-spec.js';
import { decorateMethod } from './decorate-method.js';

/** Options of `@DistributedLock`: those of a lock, and what to do when it is busy. */
export interface DistributedLockOptions extends LockOptions {
  /**
   * When the lock is not granted: `'throw'` the error; `'skip'` the run, so that the call resolves to undefined
   * (`waitTimeout` then defaults to 0); or answer with what the function returns.
   * @default 'throw'
   */
  onBusy?: 'throw' | 'skip' | ((busy: LockBusyError, call: CallContext) => unknown);
  /** The named instance of the module to use. */
  instance?: string;
}

/**
 * Runs a method under a lock, one call at a time in all processes: HTTP handlers, provider methods, `@Cron`,
 * `@OnEvent`. The lock is held until the returned Promise or Observable is over, also when the client is gone.
 * A plain method returns a Promise, or an Observable if it is declared so (`TypeScript` must emit decorator
 * metadata).
 *
 * @param key a template such as `'lock:order:<orderId>'`, or a function of the call that returns one key or
 *   several.
 * @throws LockConfigError at decoration: wrong options, or a place where it cannot act. The call rejects with a
 *   `LockKeyError`, `LockBusyError`, `LockTimeoutError`, `LockLostError`, `LockClosedError`,
 *   `LockAbortedError` or `StoreUnavailableError`.
 */
export function DistributedLock<A extends readonly any[] = any[]>(
  key: KeyTemplate | ((call: CallContext<A>) => string | readonly string[]),
  options: DistributedLockOptions = {},
): MethodDecorator {
  return decorateMethod('DistributedLock', 'lock', options?.instance, (spec, faults) => {
    spec.lock = declaration(spec, key as KeyTemplate | KeyFunction, options, faults);
  });
}

function declaration(
  { label }: GuardSpec,
  key: KeyTemplate | KeyFunction,
  options: DistributedLockOptions,
  faults: ConfigFault[],
): LockDeclaration {
  collectLockOptions(options, LOCK_DEFAULTS, label, faults, ['onBusy', 'instance']);
  const { onBusy = 'throw', instance, ...lockOptions } = options ?? {};
  if (onBusy !== 'throw' && onBusy !== 'skip' && typeof onBusy !== 'function') {
    faults.push({ path: `${label}.onBusy`, message: "is 'throw', 'skip' or a function" });
  }
  return {
    key: (typeof key === 'function' ? key : template(key, label, faults)) as LockDeclaration['key'],
    options: onBusy === 'skip' ? { waitTimeout: 0, ...defined(lockOptions) } : lockOptions,
    onBusy: onBusy as OnBusy,
    ...(instance === undefined ? {} : { instance }),
  };
}

function template(text: KeyTemplate, label: string, faults: ConfigFault[]): ParsedKeyTemplate | undefined {
  const parsed = parseKeyTemplate(text, label, faults);
  if (!parsed) return undefined;
  try {
    // Braces stand in the template alone (values are encoded), so any values show whether they form a tag.
    lockKey(parsed.literals.join(parsed.placeholders.length > 0 ? 'x' : ''));
  } catch (error) {
    if (!isRedisLockError(error, 'LOCK_KEY')) throw error;
    faults.push({ path: label, message: error.message });
  }
  return parsed;
}

/** An option given as undefined is one that was not given. */
function defined(options: LockOptions): LockOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
