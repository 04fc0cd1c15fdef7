import type { Redis } from 'ioredis';
import type { Lock, LockOptions } from '../../lib/lock/lock.js';
import { closeAllLocks, startLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';
import { sleep } from '../support/scene.js';
import { waitFor } from '../support/wait-for.js';

describe('hand-off inside a process', () => {
  let server: RedisServer;
  let redis: Redis;

  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  beforeEach(async () => {
    await redis.flushall();
  });
  afterEach(closeAllLocks);
  afterAll(() => server.stop());

  it('gives each hold its own handle, signal and rising fencing token, and sends next to nothing', async () => {
    const { locks } = await startLocks(server.url);
    await locks.withLock('warm', () => undefined);
    const seen: Lock[] = [];
    await redis.config('RESETSTAT');
    await Promise.all(
      Array.from({ length: 500 }, () =>
        locks.withLock('k', (lock) => void seen.push(lock), { waitTimeout: '20s' }),
      ),
    );
    for (let n = 1; n < seen.length; n++)
      expect(seen[n]!.fencingToken).toBeGreaterThan(seen[n - 1]!.fencingToken);
    expect(new Set(seen).size).toBe(500);
    expect(seen.every((lock) => !lock.held)).toBe(true);
    const stats = await redis.info('commandstats');
    const scripts = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce(
      (n, [, c]) => n + Number(c),
      0,
    );
    expect(scripts).toBeLessThan(50);
    expect(await redis.exists('k')).toBe(0);
  });

  it('never hands on more fencing tokens than it reserved', async () => {
    const { locks } = await startLocks(server.url);
    const reserved: boolean[] = [];
    await Promise.all(
      Array.from({ length: 200 }, () =>
        locks.withLock('k', async ({ fencingToken }) => {
          if (reserved.length % 10 === 0) reserved.push(Number(await redis.get('{k}:fence')) >= fencingToken);
          else reserved.push(true);
        }),
      ),
    );
    expect(reserved).toEqual(Array(200).fill(true));
  });

  it('is off with handoff: false: each hold has a lease of its own', async () => {
    const { locks } = await startLocks(server.url);
    const tokens: string[] = [];
    await Promise.all(
      Array.from({ length: 20 }, () =>
        locks.withLock('k', ({ token }) => void tokens.push(token), { handoff: false }),
      ),
    );
    expect(new Set(tokens).size).toBe(20);
  });

  it('gives way to a waiting process', async () => {
    const { locks } = await startLocks(server.url);
    const other = await startLocks(server.url);
    const enough = new AbortController();
    const loop = Array.from({ length: 4 }, async () => {
      while (!enough.signal.aborted) await locks.withLock('k', () => sleep(1), { waitTimeout: '20s' });
    });
    for (let n = 0; n < 5; n++) {
      const askedAt = performance.now();
      await other.locks.withLock('k', () => undefined, { waitTimeout: '10s' });
      expect(performance.now() - askedAt).toBeLessThan(2_000);
    }
    enough.abort();
    await Promise.all(loop);
  });

  it('maxHold counts for each hold on its own', async () => {
    const { locks } = await startLocks(server.url);
    const results = await Promise.all(
      Array.from({ length: 6 }, () =>
        locks.withLock('k', async (lock) => (await sleep(60), lock.signal.aborted), {
          maxHold: 150,
          waitTimeout: '20s',
        }),
      ),
    );
    expect(results).toEqual(Array(6).fill(false));
  });

  it('10 000 callers: as many commands as there are turns, whatever the number of those who wait', async () => {
    const { locks } = await startLocks(server.url);
    const other = await startLocks(server.url);
    await locks.withLock('warm', () => undefined);
    await redis.config('RESETSTAT');
    const tokens = new Set<string>();
    let last = 0;
    const sections = Array.from({ length: 10_000 }, (_, n) =>
      (n % 2 ? locks : other.locks).withLock(
        'k',
        ({ token, fencingToken }) => {
          expect(fencingToken).toBeGreaterThan(last);
          last = fencingToken;
          tokens.add(token);
        },
        { waitTimeout: '2m' },
      ),
    );
    await Promise.all(sections);
    // one give-way and one renewal for each lease, and the first looks
    expect(await scriptCalls(redis)).toBeLessThan(3 * tokens.size + 20);
    expect(tokens.size).toBeGreaterThanOrEqual(10_000 / 64);
    await waitFor(async () => (await redis.exists('k', '{k}:queue')) === 0, { what: 'the key to go' });
  }, 120_000);

  it('a waiter in the middle that leaves disturbs nobody: the others are served in order', async () => {
    const { locks } = await startLocks(server.url);
    const held = await locks.acquire('k');
    const order: number[] = [];
    const controllers = Array.from({ length: 500 }, () => new AbortController());
    const ends = controllers.map(({ signal }, n) =>
      locks.withLock('k', () => void order.push(n), { signal, waitTimeout: '20s' }).catch(() => undefined),
    );
    const stay = controllers.map((_, n) => n).filter((n) => n % 3 === 1);
    for (const [n, controller] of controllers.entries()) if (n % 3 !== 1) controller.abort();
    await held.release();
    await Promise.all(ends);
    expect(order).toEqual(stay);
  });

  it.each<[string, LockOptions]>([
    ['another ttl', { ttl: '20s' }],
    ['no renewal', { autoExtend: false }],
    ['minHold', { minHold: 50 }],
    ['hand-off off', { handoff: false }],
  ])('what the next one asks for is kept: with %s it has a lease of its own', async (_, options) => {
    const { locks } = await startLocks(server.url);
    const first = await locks.acquire('k');
    const waiting = locks.acquire('k', options);
    await first.release();
    const second = await waiting;
    expect(second.token).not.toBe(first.token);
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
    const back = locks.acquire('k', { waitTimeout: '20s' });
    await second.release();
    const third = await back;
    expect(third.token).not.toBe(second.token);
    expect(await redis.pttl('k')).toBeGreaterThan(25_000);
    await third.release();
  });
});

/** How many scripts ran since the counters were reset. */
async function scriptCalls(redis: Redis): Promise<number> {
  const stats = await redis.info('commandstats');
  return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce((sum, [, n]) => sum + Number(n), 0);
}
