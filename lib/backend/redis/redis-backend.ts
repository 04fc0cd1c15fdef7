import { randomUUID } from 'node:crypto';
import { LockConfigError, StoreUnavailableError } from '../../errors.js';
import type { Backend } from '../backend.js';
import { CleanUps } from './clean-ups.js';
import type { RedisSource } from './client-source.js';
import { Connection, type ProblemListener } from './connection.js';
import { RedisInbox } from './inbox.js';
import { RedisIdempotencyStore } from './redis-idempotency-store.js';
import { RedisLockStore } from './redis-lock-store.js';
import { RedisQuotaStore } from './redis-quota-store.js';
import { ScriptRunner } from './script-runner.js';
import { allScripts } from './scripts/all-scripts.js';
import { INBOX_CHANNEL } from './scripts/lock-prelude.lua.js';
import { isReplyError } from './store-errors.js';

export type { RedisSource } from './client-source.js';

export interface RedisBackendOptions {
  /**
   * A URL (`redis://`, `rediss://`, or the path of a socket), ioredis options, or a client of the application's,
   * which is duplicated and otherwise left alone.
   * @default 'redis://127.0.0.1:6379'
   */
  redis?: RedisSource;
  /**
   * The key that the check at the first connection takes and gives back, with the module's prefix.
   * @default 'lock:__check'
   */
  checkKey?: string;
  /** How long a fencing counter lives at least, in milliseconds. @default 600000 */
  fenceLifeMs?: number;
  /** Told what an operator should know: an outage and its end, keys that Redis may evict. */
  onProblem?(message: string, error?: Error): void;
}

const CHECK_LEASE_MS = 5_000;
const CHECK_TRY_MS = 2_000;

/**
 * A backend on one Redis (or Sentinel, or Cluster, as the client has it), with connections of its own.
 *
 * @throws LockConfigError when `redis` does not say which Redis.
 */
export function redisBackend(options: RedisBackendOptions = {}): Backend {
  return new RedisBackend(options);
}

class RedisBackend implements Backend {
  readonly kind = 'redis';
  /** A version 8 UUID without its last part. */
  readonly tokenPrefix = randomUUID()
    .slice(0, 23)
    .replace(/^(.{14})./, '$18');
  readonly locks: RedisLockStore;
  readonly idempotency: RedisIdempotencyStore;
  readonly quotas: RedisQuotaStore;
  private readonly connection: Connection;
  private readonly runner: ScriptRunner;
  private readonly cleanUps: CleanUps;
  private readonly inbox: RedisInbox;
  private readonly checkKey: string;
  private readonly onProblem: ProblemListener;
  private checked: Promise<void> | undefined;

  constructor({ redis, checkKey = 'lock:__check', fenceLifeMs, onProblem }: RedisBackendOptions) {
    this.checkKey = checkKey;
    this.onProblem = (message, error) => onProblem?.(message, error);
    this.connection = new Connection(redis, this.onProblem);
    this.runner = new ScriptRunner(this.connection);
    this.cleanUps = new CleanUps(this.connection);
    this.inbox = new RedisInbox(this.connection, INBOX_CHANNEL + this.tokenPrefix, this.onProblem);
    this.locks = new RedisLockStore(this.connection, this.runner, this.cleanUps, this.inbox, fenceLifeMs);
    this.idempotency = new RedisIdempotencyStore(
      this.connection,
      this.runner,
      this.cleanUps,
      this.tokenPrefix,
    );
    this.quotas = new RedisQuotaStore(this.connection, this.runner);
    this.connection.onReady(() => this.runner.preload(allScripts(this.connection.isCluster)));
    // also when the first connection comes long after the start
    this.connection.onReady(() => {
      this.check().catch((error: Error) => this.onProblem(error.message, error));
    });
  }

  async start(timeoutMs: number): Promise<void> {
    const endAt = performance.now() + timeoutMs;
    await this.connection.whenReady(timeoutMs);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () =>
          reject(
            new StoreUnavailableError(`Redis did not pass its check within ${timeoutMs} ms.`, {
              retryable: true,
            }),
          ),
        Math.max(endAt - performance.now(), 1),
      ).unref();
    });
    try {
      await Promise.race([this.check(), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  whenReady(timeoutMs: number): Promise<void> {
    return this.connection.whenReady(timeoutMs);
  }

  async close(): Promise<void> {
    this.cleanUps.close();
    this.inbox.close();
    await this.connection.close();
  }

  /** Once: a broken script or a forbidden command is found now, not at the first order. */
  private check(): Promise<void> {
    this.checked ??= this.runCheck().catch((error: unknown) => {
      // what may pass by itself is checked again at the next connection
      if (error instanceof Error && 'retryable' in error && error.retryable) this.checked = undefined;
      throw error;
    });
    return this.checked;
  }

  private async runCheck(): Promise<void> {
    const lease = { key: this.checkKey, token: `${this.tokenPrefix}-000000000000`, ttlMs: CHECK_LEASE_MS };
    try {
      await this.locks.acquire({ ...lease, leaseMs: CHECK_LEASE_MS, queue: false }, CHECK_TRY_MS);
      await this.locks.release({ ...lease, keepMs: 0 }, CHECK_TRY_MS);
    } catch (error) {
      const { cause, message } = error as StoreUnavailableError;
      if (
        cause instanceof Error &&
        isReplyError(cause) &&
        /unknown command|syntax error/i.test(cause.message)
      ) {
        throw new LockConfigError({ path: 'redis', message }, { cause });
      }
      throw error;
    }
    await this.warnOfEviction();
  }

  private async warnOfEviction(): Promise<void> {
    let policy: unknown;
    try {
      const reply = await this.runner.command('config', ['GET', 'maxmemory-policy'], {
        timeoutMs: CHECK_TRY_MS,
        about: [],
      });
      policy = Array.isArray(reply) ? reply[1] : undefined;
    } catch {
      // many hosted servers refuse CONFIG: nothing to say then
      return;
    }
    if (typeof policy !== 'string' || policy === 'noeviction') return;
    this.onProblem(
      `Redis may evict locks, idempotency records and quotas when its memory is full (maxmemory-policy is ${policy}): set it to noeviction.`,
    );
  }
}
