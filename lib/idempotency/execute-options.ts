import { LockConfigError, type ConfigFault } from '../errors.js';
import type { ExecuteOptions } from './idempotency.js';
import {
  MIN_LEASE_MS,
  onError,
  storing,
  type IdempotentSpec,
  type ResolvedIdempotencyDefaults,
} from './idempotency-options.js';
import { OptionCheck } from './option-check.js';

/** {@link ExecuteOptions} with every default filled in and every duration in milliseconds. */
export interface ResolvedExecuteOptions extends Pick<
  IdempotentSpec,
  | 'ttlMs'
  | 'leaseMs'
  | 'onConcurrent'
  | 'waitTimeoutMs'
  | 'onError'
  | 'isSuccess'
  | 'onStoreDown'
  | 'beforeStore'
  | 'codec'
> {
  scope?: string;
  /** Undefined: nothing is compared. */
  fingerprint?: unknown;
}

const KNOWN = [
  'ttl',
  'lease',
  'onConcurrent',
  'waitTimeout',
  'onError',
  'isSuccess',
  'onStoreDown',
  'scope',
  'fingerprint',
  'beforeStore',
  'codec',
];

/**
 * Checks the options of one execution and fills them in.
 *
 * @throws LockConfigError that lists every fault.
 */
export function resolveExecuteOptions(
  options: ExecuteOptions | undefined,
  defaults: ResolvedIdempotencyDefaults,
): ResolvedExecuteOptions {
  const faults: ConfigFault[] = [];
  const check = new OptionCheck(options, 'execute', faults, KNOWN);
  const scope = check.text('scope');
  const isSuccess = check.fn('isSuccess') as IdempotentSpec['isSuccess'];
  const resolved: ResolvedExecuteOptions = {
    ttlMs: check.duration('ttl', defaults.ttlMs, 1),
    leaseMs: check.duration('lease', defaults.leaseMs, MIN_LEASE_MS),
    onConcurrent: check.oneOf('onConcurrent', ['reject', 'wait']) ?? defaults.onConcurrent,
    waitTimeoutMs: check.duration('waitTimeout', defaults.waitTimeoutMs),
    onStoreDown: check.oneOf('onStoreDown', ['reject', 'bypass']) ?? defaults.onStoreDown,
    onError: onError(check),
    fingerprint: check.value('fingerprint'),
    ...storing(check, defaults),
    ...(isSuccess && { isSuccess }),
    ...(scope === undefined ? {} : { scope }),
  };
  if (faults.length > 0) throw new LockConfigError(faults);
  return resolved;
}
