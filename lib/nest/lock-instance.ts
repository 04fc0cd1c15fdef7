import { Logger } from '@nestjs/common';
import type { Backend } from '../backend/backend.js';
import { redisBackend } from '../backend/redis/redis-backend.js';
import { isRedisLockError } from '../errors.js';
import { IdempotencyEngine } from '../idempotency/idempotency-engine.js';
import { LockManager } from '../lock/lock-manager.js';
import { QuotaManager } from '../quota/quota-manager.js';
import { EventLogger } from './event-logger.js';
import type { RedisLockModuleOptions } from './module-options.js';
import { resolveModuleOptions, type ResolvedModuleOptions } from './options-validation.js';
import { StartingBackend } from './starting-backend.js';

/** How long the start-up looks for a store that it does not require. */
const LOOK_FOR_STORE_MS = 2_000;
/** How long it may take to come when it is required. */
const REQUIRE_STORE_MS = 5_000;

/** One instance of the module: its parts, and how they begin and end together. */
export class LockInstance {
  readonly options: ResolvedModuleOptions;
  readonly locks: LockManager;
  readonly idempotency: IdempotencyEngine;
  readonly quotas: QuotaManager;
  readonly #backend: Backend;
  readonly #logger: Logger;
  readonly #events: EventLogger;

  /** @throws LockConfigError that lists every fault of the options. */
  constructor(options: RedisLockModuleOptions | undefined, name: string | undefined) {
    this.options = resolveModuleOptions(options);
    const { store, keyPrefix, lock, operationTtlMs, shards, logging } = this.options;
    this.#logger = new Logger(name === undefined ? 'RedisLock' : `RedisLock(${name})`);
    this.#backend = new StartingBackend(
      'backend' in store
        ? store.backend
        : redisBackend({
            redis: store.redis,
            checkKey: `${keyPrefix}lock:__check`,
            onProblem: (problem) => this.#logger.warn(problem),
          }),
    );
    const backend = this.#backend;
    this.locks = new LockManager({ backend, keyPrefix, defaults: lock });
    this.idempotency = new IdempotencyEngine({ backend, keyPrefix });
    this.quotas = new QuotaManager({ backend, keyPrefix, operationTtlMs, shards, locks: this.locks });
    this.#events = new EventLogger(this.#logger, logging);
  }

  /**
   * Opens the connections. A store that does not answer is one warning, or fails the start-up when it is
   * required.
   */
  async start(): Promise<void> {
    const { requireAtStartup, logging } = this.options;
    const locks = logging === 'lifecycle' ? this.locks.events : this.locks.problems;
    this.#events.start({ locks, idempotency: this.idempotency.events });
    try {
      await this.#backend.start(requireAtStartup ? REQUIRE_STORE_MS : LOOK_FOR_STORE_MS);
    } catch (error) {
      if (requireAtStartup || !isRedisLockError(error, 'STORE_UNAVAILABLE')) {
        await this.close();
        throw error;
      }
      this.#logger.warn(`The store does not answer; locks work once it does. ${error.message}`);
    }
  }

  /** New locks are refused, the waiting get a `LockClosedError`. */
  refuse(): void {
    this.locks.refuse();
  }

  /** Lets what runs finish within `shutdown.drainTimeout`, gives everything back, closes the connections. */
  async close(): Promise<void> {
    const { drainTimeoutMs } = this.options;
    await Promise.all([this.locks.drain(drainTimeoutMs), this.idempotency.close(drainTimeoutMs)]);
    await this.#backend.close();
    this.#events.stop();
  }
}
