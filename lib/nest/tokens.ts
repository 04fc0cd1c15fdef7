/**
 * Injection tokens are strings: a CommonJS and an ES copy of this package in one process must name the same
 * provider.
 */
const token = (part: string, name: string | undefined): string =>
  name === undefined ? `nestjs-redis-lock:${part}` : `nestjs-redis-lock:${part}:${name}`;

/** The token of a `LockService`. @param name the named instance; none: the unnamed one. */
export const getLockServiceToken = (name?: string): string => token('LockService', name);

/** The token of an `IdempotencyService`. @param name the named instance; none: the unnamed one. */
export const getIdempotencyServiceToken = (name?: string): string => token('IdempotencyService', name);

/** The token of a `QuotaService`. @param name the named instance; none: the unnamed one. */
export const getQuotaServiceToken = (name?: string): string => token('QuotaService', name);

/** What decorated classes get injected: see `holder.ts`. @internal */
export const getHolderToken = (name?: string): string => token('holder', name);

/** The parts of one instance: see `lock-instance.ts`. @internal */
export const getInstanceToken = (name?: string): string => token('instance', name);

/** What begins and ends one instance: see `instance-lifecycle.ts`. @internal */
export const getLifecycleToken = (name?: string): string => token('lifecycle', name);

/**
 * Provide a value under this token in a global module to change the HTTP answers of this package's errors:
 * entries replace those of the default table, see `ErrorTable`.
 */
export const REDIS_LOCK_ERROR_TABLE = 'nestjs-redis-lock:error-table';

/** The options of one instance, private to its module. @internal */
export const MODULE_OPTIONS = 'nestjs-redis-lock:options';
