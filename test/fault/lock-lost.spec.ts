import type { Redis } from 'ioredis';
import type { LockManager } from '../../lib/lock/lock-manager.js';
import { closeAllLocks, startLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';
import { sleep } from '../support/scene.js';
import { waitFor } from '../support/wait-for.js';

/** How a key is lost under its holder, and what the holder is told. */
type Loss = [string, string, (server: RedisServer, other: LockManager) => Promise<unknown>];

const LOSSES: Loss[] = [
  ['is deleted', 'taken', (server) => server.client().del('k')],
  ['is taken by a foreign holder', 'taken', (server) => server.client().set('k', 'foreign', 'PX', 900)],
  ['goes with everything else', 'taken', (server) => server.client().flushall()],
  [
    'becomes a hash for a while',
    'taken',
    async (server) => {
      const redis = server.client();
      await redis.del('k');
      await redis.hset('k', 'field', 'value');
      await sleep(700);
      await redis.del('k');
    },
  ],
  ['is released by an operator elsewhere', 'released', (_, other) => other.forceRelease('k')],
  ['goes with a restart of Redis', 'taken', (server) => server.restart()],
  [
    'cannot be renewed while Redis is stopped',
    'expired',
    async (server) => {
      server.pause();
      await sleep(1_500);
      server.resume();
    },
  ],
];

const CROWDS = [
  { behind: 'tasks of the same process', own: 10, others: 0, handoff: true },
  { behind: 'tasks of the same process, hand-off off', own: 10, others: 0, handoff: false },
  { behind: 'tasks of the same process and another process', own: 5, others: 5, handoff: true },
];

describe.each(CROWDS)('a lock that is lost with $behind behind it', ({ own, others, handoff }) => {
  let server: RedisServer;
  let redis: Redis;

  beforeEach(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  afterEach(async () => {
    await closeAllLocks();
    await server.stop();
  });

  it.each(LOSSES)(
    'because it %s: the holder is told (%s), all wait properly again and are served',
    async (how, reason, lose) => {
      const options = { ttl: 1_000, waitTimeout: '25s', handoff } as const;
      const { locks, count } = await startLocks(server.url);
      const other = await startLocks(server.url);
      const operator = await startLocks(server.url);
      const first = await locks.acquire('k', options);
      const waiting = locks.acquire('k', options);
      await first.release();
      const holder = await waiting;
      const { signal } = holder;
      const refused: string[] = [];
      const fences: number[] = [];
      let inside = 0;
      const wait = (by: LockManager): Promise<void> =>
        by
          .withLock(
            'k',
            async ({ fencingToken }) => {
              expect(++inside).toBe(1);
              expect(fencingToken).toBeGreaterThan(fences.at(-1) ?? holder.fencingToken);
              fences.push(fencingToken);
              await sleep(1);
              inside--;
            },
            { ...options, onLost: 'report' },
          )
          .catch((error: { code: string; message: string }) => void refused.push(error.message));
      const turns = [
        ...Array.from({ length: own }, () => wait(locks)),
        ...Array.from({ length: others }, () => wait(other.locks)),
      ];
      if (others > 0)
        await waitFor(async () => (await redis.zcard('{k}:queue')) === 1, { what: 'the queue' });
      const told = new Promise((resolve) => signal.addEventListener('abort', resolve));
      await lose(server, operator.locks);
      await told;
      expect(signal.reason).toMatchObject({ code: 'LOCK_LOST' });
      // whichever is found first: by a renewal, by the deadline, or by what the inbox hears (once it is open)
      expect(['expired', 'taken', reason]).toContain((signal.reason as { reason: string }).reason);
      await Promise.all(turns);
      if (how.includes('hash')) {
        // whoever asked while it was a hash was told so at once, and nobody was served twice
        for (const message of refused) expect(message).toContain('WRONGTYPE');
      } else expect(refused).toEqual([]);
      expect(fences.length + refused.length).toBe(own + others);
      expect(holder.held).toBe(false);
      expect(await holder.release()).toBe('lost');
      expect(count('lost')).toBe(1);
      const admin = server.client();
      await waitFor(async () => (await admin.exists('k', '{k}:queue')) === 0, { what: 'the key to go' });
    },
  );
});

describe('a lock that an operator releases elsewhere', () => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterEach(closeAllLocks);
  afterAll(() => server.stop());

  it.each([
    ['nobody waits', 0],
    ['others of its process wait', 3],
  ])('tells its holder by the inbox, long before a renewal would find it, when %s', async (_, waiting) => {
    const { locks } = await startLocks(server.url);
    const operator = await startLocks(server.url);
    // contention opens the inbox
    const warm = await operator.locks.acquire('warm');
    const opening = locks.acquire('warm', { waitTimeout: '20s' });
    await waitFor(async () => (await server.client().zcard('{warm}:queue')) === 1, { what: 'the queue' });
    await warm.release();
    await (await opening).release();

    const options = { ttl: '10m', waitTimeout: '25s' } as const;
    const lock = await locks.acquire('k', options);
    const told = new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
    const turns = Array.from({ length: waiting }, () =>
      locks.withLock(
        'k',
        ({ fencingToken }) => expect(fencingToken).toBeGreaterThan(lock.fencingToken),
        options,
      ),
    );
    expect(await operator.locks.forceRelease('k')).toBe(true);
    await told;
    expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'released' });
    await Promise.all(turns);
    expect(await lock.release()).toBe('lost');
  });
});
