import { TTL_MS } from './session.mjs';

/**
 * The libraries that people use today. All poll. Each is opened with its own waiting time between two tries, or
 * with the one that is given; nobody ever gives up. A process loads the one that it runs, and no other.
 *
 * @typedef {object} Peer
 * @property {string} name
 * @property {number} pollMs its own time between two tries, on average
 * @property {(url: string, pollMs?: number) => Promise<import('./session.mjs').Session>} open
 */

/** @type {readonly Peer[]} */
export const peers = [
  {
    name: 'redlock 5 beta',
    pollMs: 200,
    async open(url, pollMs) {
      const { Redis } = await import('ioredis');
      const { default: Redlock } = await import('redlock');
      const redlock = new Redlock([new Redis(url)], {
        retryCount: -1,
        ...(pollMs !== undefined && { retryDelay: pollMs, retryJitter: pollMs / 2 }),
      });
      return {
        async acquire(key) {
          const lock = await redlock.acquire([key], TTL_MS);
          return () => lock.release();
        },
        close: () => redlock.quit(),
      };
    },
  },
  {
    name: 'redis-semaphore',
    pollMs: 10,
    async open(url, pollMs) {
      const { Redis } = await import('ioredis');
      const { Mutex } = await import('redis-semaphore');
      const client = new Redis(url);
      const retry = pollMs === undefined ? {} : { retryInterval: pollMs };
      return {
        async acquire(key) {
          const mutex = new Mutex(client, key, { lockTimeout: TTL_MS, acquireTimeout: 600_000, ...retry });
          await mutex.acquire();
          return () => mutex.release();
        },
        close: () => client.quit(),
      };
    },
  },
  {
    name: '@microfleet/ioredis-lock',
    pollMs: 55,
    async open(url, pollMs) {
      const { Redis } = await import('ioredis');
      const { createLock } = await import('@microfleet/ioredis-lock');
      const client = new Redis(url);
      const retry = pollMs === undefined ? {} : { delay: pollMs };
      return {
        async acquire(key) {
          const lock = createLock(client, { timeout: TTL_MS, retries: Infinity, ...retry });
          await lock.acquire(key);
          return () => lock.release();
        },
        close: () => client.quit(),
      };
    },
  },
  {
    name: '@redis-kit/lock',
    pollMs: 250,
    async open(url, pollMs) {
      const { createClient } = await import('redis');
      const { Redlock } = await import('@redis-kit/lock');
      const client = createClient({ url });
      await client.connect();
      const redlock = new Redlock([/** @type {import('redis').RedisClientType} */ (client)], {
        maxRetryAttempts: Infinity,
        ...(pollMs !== undefined && { retryDelayMs: pollMs, retryJitterMs: pollMs / 2 }),
      });
      return {
        async acquire(key) {
          const lock = await redlock.acquire(key, TTL_MS);
          if (!lock) throw new Error(`@redis-kit/lock gave up on ${key}`);
          return async () => {
            if (!(await lock.release())) throw new Error(`@redis-kit/lock lost ${key}`);
          };
        },
        close: () => client.close(),
      };
    },
  },
  {
    name: 'redlock-universal',
    pollMs: 100,
    async open(url, pollMs) {
      const { Redis } = await import('ioredis');
      const { createLock, IoredisAdapter } = await import('redlock-universal');
      const client = new Redis(url);
      const adapter = IoredisAdapter.from(client);
      /** @type {Map<string, import('redlock-universal').Lock>} a lock object is meant to be kept per key */
      const locks = new Map();
      return {
        async acquire(key) {
          const options = { adapter, key, ttl: TTL_MS, retryAttempts: Number.MAX_SAFE_INTEGER };
          let lock = locks.get(key);
          if (!lock) {
            lock = createLock(pollMs === undefined ? options : { ...options, retryDelay: pollMs });
            locks.set(key, lock);
          }
          const taken = lock;
          const handle = await taken.acquire();
          return async () => {
            if (!(await taken.release(handle))) throw new Error(`redlock-universal lost ${key}`);
          };
        },
        close: () => client.quit(),
      };
    },
  },
  {
    name: 'murlock',
    // it has no default of its own: this is the value of every example in its README
    pollMs: 1_000,
    async open(url, pollMs) {
      const { NestFactory } = await import('@nestjs/core');
      const { MurLockModule, MurLockService } = await import('murlock');
      const app = await NestFactory.createApplicationContext(
        MurLockModule.forRoot({
          redisOptions: { url },
          wait: pollMs ?? 1_000,
          maxAttempts: 1,
          blocking: true,
          logLevel: 'error',
        }),
        { logger: ['error'] },
      );
      const service = app.get(MurLockService);
      return {
        // it only runs functions: the one that it runs hands its end over to whoever holds the lock
        acquire: (key) =>
          new Promise((granted, failed) => {
            const settled = service.runWithLock(
              key,
              TTL_MS,
              () =>
                new Promise((/** @type {(value?: undefined) => void} */ end) =>
                  granted(() => (end(), settled)),
                ),
            );
            settled.catch(failed);
          }),
        close: () => app.close(),
      };
    },
  },
];
