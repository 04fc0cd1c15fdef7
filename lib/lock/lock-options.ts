import { collectDuration } from '../duration.js';
import { LockConfigError, type ConfigFault } from '../errors.js';
import type { LockOptions } from './lock.js';

/** The least ttl: below it a renewal every third of it cannot be relied on. */
export const MIN_TTL_MS = 100;

/** {@link LockOptions} with every default filled in and every duration in milliseconds. */
export interface ResolvedLockOptions {
  ttlMs: number;
  waitTimeoutMs: number;
  autoExtend: boolean;
  maxHoldMs: number;
  minHoldMs: number;
  reentrant: boolean;
  handoff: boolean;
  onLost: 'throw' | 'report';
  signal?: AbortSignal;
}

export const LOCK_DEFAULTS: ResolvedLockOptions = {
  ttlMs: 30_000,
  waitTimeoutMs: 5_000,
  autoExtend: true,
  maxHoldMs: 600_000,
  minHoldMs: 0,
  reentrant: true,
  handoff: true,
  onLost: 'throw',
};

const KNOWN = new Set([
  'ttl',
  'waitTimeout',
  'autoExtend',
  'maxHold',
  'minHold',
  'reentrant',
  'handoff',
  'replicas',
  'onLost',
  'signal',
]);

/**
 * Checks lock options and fills them in. Every fault is added to `faults` with its path; the result is only
 * to be used when none was.
 *
 * @param known names that are allowed besides (a decorator's own options).
 */
export function collectLockOptions(
  options: LockOptions | undefined,
  defaults: ResolvedLockOptions,
  path: string,
  faults: ConfigFault[],
  known: readonly string[] = [],
): ResolvedLockOptions {
  if (options === undefined) return defaults;
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    faults.push({ path, message: 'lock options are one object, e.g. { ttl: "30s", waitTimeout: 0 }' });
    return defaults;
  }
  const at = (name: string): string => (path ? `${path}.${name}` : name);
  const duration = (
    name: keyof LockOptions,
    fallback: number,
    bounds?: { min?: number; infinite?: boolean },
  ) => (options[name] === undefined ? fallback : collectDuration(options[name], at(name), faults, bounds));
  const flag = (name: 'autoExtend' | 'reentrant' | 'handoff'): boolean => {
    const value: unknown = options[name];
    if (value === undefined) return defaults[name];
    if (typeof value !== 'boolean') faults.push({ path: at(name), message: 'is true or false' });
    return value === true;
  };

  for (const name of Object.keys(options)) {
    if (!KNOWN.has(name) && !known.includes(name)) {
      faults.push({ path: at(name), message: `is no option; there are ${[...KNOWN, ...known].join(', ')}` });
    }
  }
  const resolved: ResolvedLockOptions = {
    ttlMs: duration('ttl', defaults.ttlMs, { min: MIN_TTL_MS }),
    waitTimeoutMs: duration('waitTimeout', defaults.waitTimeoutMs),
    autoExtend: flag('autoExtend'),
    maxHoldMs: duration('maxHold', defaults.maxHoldMs, { min: 1, infinite: true }),
    minHoldMs: duration('minHold', defaults.minHoldMs),
    reentrant: flag('reentrant'),
    handoff: flag('handoff'),
    onLost: options.onLost ?? defaults.onLost,
  };
  if (resolved.onLost !== 'throw' && resolved.onLost !== 'report') {
    faults.push({ path: at('onLost'), message: "is 'throw' or 'report'" });
  }
  if (options.replicas !== undefined) {
    faults.push({
      path: at('replicas'),
      message:
        'waiting for replicas is not built yet; leave it out (a failover may lose a lock: use the fencing token)',
    });
  }
  const signal = options.signal ?? defaults.signal;
  if (signal !== undefined) {
    if (!(signal instanceof AbortSignal)) faults.push({ path: at('signal'), message: 'is an AbortSignal' });
    resolved.signal = signal;
  }
  return resolved;
}

/** As {@link collectLockOptions}, but faults are thrown as one `LockConfigError`. */
export function resolveLockOptions(
  options: LockOptions | undefined,
  defaults: ResolvedLockOptions = LOCK_DEFAULTS,
  path = '',
): ResolvedLockOptions {
  const faults: ConfigFault[] = [];
  const resolved = collectLockOptions(options, defaults, path, faults);
  if (faults.length > 0) throw new LockConfigError(faults);
  return resolved;
}
