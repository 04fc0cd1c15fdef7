import { collectDuration } from '../duration.js';
import { isRedisLockError, LockConfigError, type ConfigFault } from '../errors.js';
import {
  collectIdempotencyDefaults,
  type ResolvedIdempotencyDefaults,
} from '../idempotency/idempotency-options.js';
import type { IdempotencyDefaults } from '../idempotency/idempotency.js';
import { lockKey } from '../lock/lock-key.js';
import { collectLockOptions, LOCK_DEFAULTS, type ResolvedLockOptions } from '../lock/lock-options.js';
import type { LockOptions } from '../lock/lock.js';
import { collectShardPlan, type ShardPlan } from '../quota/shard-plan.js';
import type { RedisLockModuleOptions } from './module-options.js';

const DAY_MS = 86_400_000;
const DRAIN_MS = 10_000;

/** {@link RedisLockModuleOptions}, checked and filled in. */
export interface ResolvedModuleOptions {
  store:
    | { backend: NonNullable<RedisLockModuleOptions['backend']> }
    | { redis: NonNullable<RedisLockModuleOptions['redis']> };
  keyPrefix: string;
  lock: ResolvedLockOptions;
  idempotency: ResolvedIdempotencyDefaults;
  operationTtlMs: number;
  shards: ShardPlan;
  requireAtStartup: boolean;
  drainTimeoutMs: number;
  logging: 'lifecycle' | 'problems';
}

const KNOWN = [
  'redis',
  'nodes',
  'backend',
  'keyPrefix',
  'lock',
  'idempotency',
  'quota',
  'requireAtStartup',
  'shutdown',
  'logging',
];

/** @throws LockConfigError that lists every fault with its path. */
export function resolveModuleOptions(given: RedisLockModuleOptions | undefined): ResolvedModuleOptions {
  const faults: ConfigFault[] = [];
  const options = record(given, '', faults, KNOWN);
  const quota = record(options.quota, 'quota', faults, ['operationTtl', 'shards']);
  const shutdown = record(options.shutdown, 'shutdown', faults, ['drainTimeout']);
  const duration = (value: unknown, path: string, fallback: number, min = 0): number =>
    value === undefined ? fallback : collectDuration(value, path, faults, { min });

  refuseUnbuilt(options, faults);
  const resolved: ResolvedModuleOptions = {
    store: store(options, faults),
    keyPrefix: keyPrefix(options.keyPrefix, faults),
    lock: collectLockOptions(options.lock as LockOptions | undefined, LOCK_DEFAULTS, 'lock', faults),
    idempotency: collectIdempotencyDefaults(
      options.idempotency as IdempotencyDefaults | undefined,
      'idempotency',
      faults,
    ),
    operationTtlMs: duration(quota.operationTtl, 'quota.operationTtl', DAY_MS, 1),
    shards: collectShardPlan(quota.shards, 'quota.shards', faults),
    requireAtStartup: options.requireAtStartup === true,
    drainTimeoutMs: duration(shutdown.drainTimeout, 'shutdown.drainTimeout', DRAIN_MS),
    logging: options.logging === 'lifecycle' ? 'lifecycle' : 'problems',
  };
  if (!['undefined', 'boolean'].includes(typeof options.requireAtStartup)) {
    faults.push({ path: 'requireAtStartup', message: 'is true or false' });
  }
  if (quota.shards !== undefined && /[{}]/.test(resolved.keyPrefix)) {
    faults.push({
      path: 'quota.shards',
      message: 'need a keyPrefix without braces: its hash tag would put all shards in one slot',
    });
  }
  if (options.logging !== undefined && options.logging !== resolved.logging) {
    faults.push({ path: 'logging', message: "is 'lifecycle' or 'problems'" });
  }
  if (faults.length > 0) throw new LockConfigError(faults);
  return resolved;
}

/** Promises that cannot be kept yet are refused, never ignored. */
function refuseUnbuilt(options: Record<string, unknown>, faults: ConfigFault[]): void {
  if (options.nodes !== undefined) {
    faults.push({
      path: 'nodes',
      message: 'a quorum over several masters is not built yet; give one store in redis',
    });
  }
}

function store(options: Record<string, unknown>, faults: ConfigFault[]): ResolvedModuleOptions['store'] {
  const { redis, backend } = options;
  if (backend !== undefined) {
    if (redis !== undefined) {
      faults.push({ path: 'backend', message: 'and redis exclude each other: give one of them' });
    }
    if (!isBackend(backend)) {
      faults.push({
        path: 'backend',
        message: 'is no Backend, e.g. inMemoryBackend() of nestjs-redis-lock/testing',
      });
    }
    return { backend: backend as NonNullable<RedisLockModuleOptions['backend']> };
  }
  const usable = typeof redis === 'string' ? redis !== '' : isObject(redis) && !Array.isArray(redis);
  if (redis !== undefined && !usable) {
    faults.push({
      path: 'redis',
      message: 'is a URL such as redis://127.0.0.1:6379, ioredis options, or a client',
    });
  }
  return { redis: (redis ?? 'redis://127.0.0.1:6379') as NonNullable<RedisLockModuleOptions['redis']> };
}

function keyPrefix(value: unknown, faults: ConfigFault[]): string {
  if (value === undefined || value === '') return '';
  try {
    return lockKey(value).full;
  } catch (error) {
    if (!isRedisLockError(error, 'LOCK_KEY')) throw error;
    faults.push({
      path: 'keyPrefix',
      message:
        typeof value === 'string' ? 'has braces that form no hash tag, or is not well-formed' : 'is a string',
    });
    return '';
  }
}

function record(
  value: unknown,
  path: string,
  faults: ConfigFault[],
  known: readonly string[],
): Record<string, unknown> {
  if (value === undefined) return {};
  if (!isObject(value) || Array.isArray(value)) {
    faults.push({ path: path || 'options', message: 'is an object' });
    return {};
  }
  for (const name of Object.keys(value)) {
    if (known.includes(name)) continue;
    faults.push({
      path: path ? `${path}.${name}` : name,
      message: `is no option; there are ${known.join(', ')}`,
    });
  }
  return value;
}

function isBackend(value: unknown): boolean {
  return isObject(value) && ['locks', 'idempotency', 'quotas'].every((part) => isObject(value[part]));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
