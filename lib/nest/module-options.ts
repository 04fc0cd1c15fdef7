import type { Cluster, Redis, RedisOptions } from 'ioredis';
import type { Backend } from '../backend/backend.js';
import type { Duration } from '../duration.js';
import type { IdempotencyDefaults } from '../idempotency/idempotency.js';
import type { LockOptions } from '../lock/lock.js';

/** Module options take any string as a duration: their values often come from the environment. */
type WithLooseDurations<T> = { [K in keyof T]: Duration extends T[K] ? T[K] | string : T[K] };

/** Options of `RedisLockModule.forRoot()`. */
export interface RedisLockModuleOptions {
  /**
   * A URL, ioredis options, or a client of the application's: that one is never closed nor changed, the module
   * opens its own connections with `duplicate()`.
   * @default 'redis://127.0.0.1:6379'
   */
  redis?: string | RedisOptions | Redis | Cluster;
  /** Independent masters. Not built yet: refused with a `LockConfigError`. */
  nodes?: Array<string | RedisOptions | Redis>;
  /** Anything else that keeps the contract, e.g. `inMemoryBackend()`; instead of `redis`. */
  backend?: Backend;
  /**
   * Stands before every key.
   * @default ''
   */
  keyPrefix?: string;
  /** Defaults for every lock. */
  lock?: WithLooseDurations<LockOptions>;
  /** Defaults for every `@Idempotent`. */
  idempotency?: WithLooseDurations<IdempotencyDefaults>;
  quota?: {
    /**
     * How long a granted operation is known by its id.
     * @default '24h'
     */
    operationTtl?: Duration | string;
    /**
     * Quotas that are spread over several keys with slots apart, because one node of a Cluster cannot carry them:
     * a key, or a beginning with `*` behind it, and how many shards (2 to 128), e.g. `{ 'quota:m42': 8 }`. The number
     * must be the same in every process, and must not change while the quota lives. On a single Redis they bring
     * nothing.
     * @default none
     */
    shards?: Record<string, number>;
  };
  /**
   * True: an unreachable store fails the start-up. False: it is one warning, and work starts when it comes.
   * @default false
   */
  requireAtStartup?: boolean;
  shutdown?: {
    /**
     * How long the sections in flight may take to finish when the application closes.
     * @default '10s'
     */
    drainTimeout?: Duration | string;
  };
  /**
   * `'lifecycle'` logs every acquire, release, loss and replay with key and token; `'problems'` losses,
   * takeovers and outages.
   * @default 'problems'
   */
  logging?: 'lifecycle' | 'problems';
}

/** What stands beside the options in `forRoot` and `forRootAsync`. */
export interface RedisLockModuleExtras {
  /**
   * Whether the module's services can be injected everywhere.
   * @default true
   */
  isGlobal?: boolean;
  /** A named instance, beside the unnamed one. */
  name?: string;
}
