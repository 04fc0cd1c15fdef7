import { randomUUID } from 'node:crypto';
import { LockConfigError, StoreUnavailableError } from '../../errors.js';
import { outsideCallChain } from '../../outside-call-chain.js';
import type { Backend } from '../backend.js';
import { MemoryIdempotencyStore } from './memory-idempotency-store.js';
import { MemoryLockStore } from './memory-lock-store.js';
import { MemoryQuotaStore } from './memory-quota-store.js';

export interface InMemoryBackendOptions {
  /**
   * Starts with `NODE_ENV=production` too. Only for an application that runs as one single process and may
   * forget every lock, record and quota when it restarts.
   * @default false
   */
  allowInProduction?: boolean;
  /**
   * The clock by which leases and records end, in milliseconds since 1970: for tests that must steer it. The
   * holder of a lock goes by its own clocks.
   * @default the process's monotonic clock
   */
  clock?: () => number;
}

const SWEEP_EVERY_MS = 500;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * A backend inside one process, for an application's own tests and for trying things without Redis: real
 * exclusion, leases, fencing tokens, idempotency records and quotas, with Redis's answers. Other processes see
 * nothing of it, and all of it is gone with the process.
 *
 * Modules that are given the same object share it, as processes share a Redis; what it holds outlives them.
 *
 * @throws LockConfigError at start-up with `NODE_ENV=production`, unless `allowInProduction` is true.
 */
export function inMemoryBackend(options: InMemoryBackendOptions = {}): Backend {
  return new MemoryBackend(options);
}

/** What {@link inMemoryBackend} makes. */
export class MemoryBackend implements Backend {
  readonly kind = 'memory';
  readonly locks: MemoryLockStore;
  readonly idempotency: MemoryIdempotencyStore;
  readonly quotas: MemoryQuotaStore;
  private readonly allowInProduction: boolean;
  private readonly waiting = new Set<() => void>();
  private users = 0;
  private sweeper: NodeJS.Timeout | undefined;

  constructor({ allowInProduction = false, clock = monotonicClock }: InMemoryBackendOptions = {}) {
    this.allowInProduction = allowInProduction;
    const assertOpen = (): void => {
      if (this.users === 0) throw notStarted();
    };
    this.locks = new MemoryLockStore(clock, assertOpen);
    this.idempotency = new MemoryIdempotencyStore(clock, assertOpen, this.locks.inbox);
    this.quotas = new MemoryQuotaStore(clock, assertOpen);
  }

  /** Another one for each reader: two modules that share this object count their tokens apart. */
  get tokenPrefix(): string {
    const uuid = randomUUID();
    return `${uuid.slice(0, 14)}8${uuid.slice(15, 23)}`;
  }

  async start(): Promise<void> {
    if (process.env.NODE_ENV === 'production' && !this.allowInProduction) {
      throw new LockConfigError({
        path: 'backend',
        message:
          'inMemoryBackend() excludes nobody outside this process and forgets everything when it ends, so it does not ' +
          'start with NODE_ENV=production: use Redis (the option `redis`), or inMemoryBackend({ allowInProduction: true }) ' +
          'where one single process is all there ever is',
      });
    }
    this.users++;
    this.sweeper ??= outsideCallChain(() => setInterval(() => this.sweep(), SWEEP_EVERY_MS).unref());
    for (const wake of this.waiting) wake();
  }

  async whenReady(timeoutMs: number): Promise<void> {
    if (this.users > 0) return;
    await new Promise<void>((resolve, reject) => {
      const end = (settle: () => void): void => {
        clearTimeout(timer);
        this.waiting.delete(wake);
        settle();
      };
      const wake = (): void => end(resolve);
      const timer = setTimeout(() => end(() => reject(notStarted())), Math.min(timeoutMs, LONGEST_TIMER_MS));
      timer.unref();
      this.waiting.add(wake);
    });
  }

  async close(): Promise<void> {
    if (this.users === 0) return;
    this.users--;
    if (this.users > 0) return;
    clearInterval(this.sweeper);
    this.sweeper = undefined;
  }

  /** Entries in memory, for tests of growth. */
  get size(): number {
    return this.locks.size + this.idempotency.size + this.quotas.size;
  }

  private sweep(): void {
    this.locks.sweep();
    this.idempotency.sweep();
    this.quotas.sweep();
  }
}

/** Counts from 1970, so that fencing tokens of this process look like Redis's, and never steps. */
function monotonicClock(): number {
  return performance.timeOrigin + performance.now();
}

function notStarted(): StoreUnavailableError {
  return new StoreUnavailableError('The in-memory backend is not started, or is closed.', {
    retryable: true,
  });
}
