import type { Redis } from 'ioredis';
import { isRedisLockError } from '../../lib/errors.js';
import { closeAllLocks, startLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';

const UUID_V8 = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Blocks the event loop, as a long computation would. */
function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

describe('a held lock', () => {
  let server: RedisServer;
  let redis: Redis;

  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  afterAll(async () => server.stop());
  beforeEach(async () => {
    await redis.flushall();
  });
  afterEach(async () => closeAllLocks());

  it('stands in Redis as a bare UUID with an expiry, exactly as SET NX PX writes it', async () => {
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('lock:order:1', { ttl: '10s' });
    expect(await redis.get('lock:order:1')).toBe(lock.token);
    expect(lock.token).toMatch(UUID_V8);
    expect(await redis.pttl('lock:order:1')).toBeGreaterThan(9_000);
    expect(await redis.set('lock:order:1', 'other', 'PX', 1_000, 'NX')).toBeNull();
    expect(await lock.release()).toBe('released');
    expect(await redis.exists('lock:order:1')).toBe(0);
  });

  it('has a new token for each grant and a strictly rising fencing token', async () => {
    const { locks } = await startLocks(server.url);
    const seen: { token: string; fencingToken: number }[] = [];
    for (let i = 0; i < 50; i++) {
      await locks.withLock('k', ({ token, fencingToken }) => void seen.push({ token, fencingToken }));
    }
    expect(new Set(seen.map(({ token }) => token)).size).toBe(50);
    for (let i = 1; i < seen.length; i++) {
      expect(seen[i]!.fencingToken).toBeGreaterThan(seen[i - 1]!.fencingToken);
      expect(Number.isSafeInteger(seen[i]!.fencingToken)).toBe(true);
    }
  });

  it('keeps its prefix to itself: keys, events and infos carry the name that the caller gave', async () => {
    const { locks, events } = await startLocks(server.url, { keyPrefix: 'shop:' });
    const lock = await locks.acquire('a');
    expect(await redis.get('shop:a')).toBe(lock.token);
    expect(lock.keys).toEqual(['a']);
    expect(await locks.inspect('a')).toMatchObject({ key: 'a', token: lock.token, waitingProcesses: 0 });
    const listed = [];
    for await (const info of locks.list()) listed.push(info.key);
    expect(listed).toEqual(['a']);
    await lock.release();
    expect(events.map(({ type, key }) => [type, key])).toEqual([
      ['acquired', 'a'],
      ['released', 'a'],
    ]);
    expect(await locks.inspect('a')).toBeNull();
  });

  it('L5: deleted behind its back it is lost at the next renewal, and the next hold is renewed', async () => {
    const { locks } = await startLocks(server.url);
    const first = await locks.acquire('k', { ttl: 300 });
    const firstSignal = first.signal;
    await redis.del('k');
    const second = await locks.acquire('k', { ttl: 300 });
    await waitFor(() => firstSignal.aborted, { what: 'the first hold to notice' });
    expect(isRedisLockError(firstSignal.reason, 'LOCK_LOST')).toBe(true);
    expect(firstSignal.reason).toMatchObject({ reason: 'taken', key: 'k', token: first.token });
    expect(first.held).toBe(false);
    await sleep(900);
    expect(second.held).toBe(true);
    expect(await redis.get('k')).toBe(second.token);
    expect(await first.release()).toBe('lost');
    expect(await second.release()).toBe('released');
  });

  it('L7: a blocked event loop is noticed by whoever asks first', async () => {
    const { locks } = await startLocks(server.url);
    const other = await startLocks(server.url);
    const asked = locks.withLock(
      'k',
      async (lock) => {
        block(450);
        expect(lock.held).toBe(false);
        expect(lock.remainingMs).toBe(0);
        expect(() => lock.assertHeld()).toThrow(expect.objectContaining({ code: 'LOCK_LOST' }));
        const taken = await other.locks.acquire('k', { ttl: 300 });
        expect(taken.fencingToken).toBeGreaterThan(lock.fencingToken);
        await taken.release();
        return 'done';
      },
      { ttl: 300 },
    );
    await expect(asked).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'expired', result: 'done' });
  });

  it('L8: a task that never ends is told at maxHold, and another gets the key within one ttl', async () => {
    const { locks } = await startLocks(server.url);
    const other = await startLocks(server.url);
    const startedAt = performance.now();
    const lock = await locks.acquire('k', { ttl: 600, maxHold: 900 });
    await waitFor(() => lock.signal.aborted, { what: 'maxHold' });
    const abortedAfter = performance.now() - startedAt;
    expect(abortedAfter).toBeGreaterThan(899);
    expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'maxHold' });
    expect(lock.held).toBe(true);
    const taken = await other.locks.acquire('k', { ttl: 600, waitTimeout: 10_000 });
    expect(performance.now() - startedAt).toBeGreaterThan(abortedAfter);
    expect(lock.held).toBe(false);
    expect(await lock.release()).toBe('lost');
    expect(await redis.get('k')).toBe(taken.token);
    await taken.release();
    const overdue = locks.withLock('other', () => sleep(900), { ttl: 300, maxHold: 150 });
    await expect(overdue).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'maxHold' });
  });

  it('L8: a task that stops at maxHold, before the lease ends, has not lost exclusion', async () => {
    const { locks } = await startLocks(server.url);
    const result = locks.withLock(
      'k',
      async (lock) => {
        await waitFor(() => lock.signal.aborted, { what: 'maxHold' });
        return 'stopped in time';
      },
      { ttl: 3_000, maxHold: 200 },
    );
    await expect(result).resolves.toBe('stopped in time');
    expect(await redis.exists('k')).toBe(0);
  });

  it('L15: after a long wait its validity is a full ttl', async () => {
    const { locks } = await startLocks(server.url);
    await redis.set('k', 'foreign', 'PX', 600);
    const lock = await locks.acquire('k', { ttl: 500 });
    expect(lock.remainingMs).toBeGreaterThan(400);
    await lock.release();
  });

  it('L16: releasing a lock that ran out resolves to lost, with one command', async () => {
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('k', { ttl: 150, autoExtend: false });
    await sleep(300);
    await redis.config('RESETSTAT');
    expect(await lock.release()).toBe('lost');
    expect(await lock.release()).toBe('lost');
    expect(await scriptCalls(redis)).toBe(1);
  });

  it('L19: may be extended again and again, as the same handle', async () => {
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('k', { ttl: 1_000 });
    const { token, fencingToken } = lock;
    await lock.extend('10s');
    expect(lock.remainingMs).toBeGreaterThan(8_000);
    await lock.extend('20s');
    expect(lock.remainingMs).toBeGreaterThan(17_000);
    await lock.extend(500);
    expect(lock.remainingMs).toBeGreaterThan(17_000); // a deadline only ever grows
    expect(lock).toMatchObject({ token, fencingToken });
    expect(await redis.pttl('k')).toBeGreaterThan(17_000);
    await expect(lock.extend(50)).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
    await lock.release();
    await expect(lock.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('L20: extending a deleted lock says lost and does not create the key again', async () => {
    const { locks, count } = await startLocks(server.url);
    const lock = await locks.acquire('k');
    const { signal } = lock;
    await redis.del('k');
    await expect(lock.extend()).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
    expect(await redis.exists('k')).toBe(0);
    expect(signal.aborted).toBe(true);
    expect(count('lost')).toBe(1);
  });

  it('L22: a late extend and a late release leave the next holder untouched', async () => {
    const { locks } = await startLocks(server.url);
    const other = await startLocks(server.url);
    const late = await locks.acquire('k', { ttl: 150, autoExtend: false });
    const next = await other.locks.acquire('k', { ttl: '20s' });
    await expect(late.extend('60s')).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect(await late.release()).toBe('lost');
    expect(await redis.get('k')).toBe(next.token);
    const left = await redis.pttl('k');
    expect(left).toBeGreaterThan(18_000);
    expect(left).toBeLessThanOrEqual(20_000);
  });

  it('L36: two locks of 200 ms live through 5 s of load with at most one renewal per ttl/3 each', async () => {
    const { locks } = await startLocks(server.url);
    const busy = await RedisServer.start();
    const load = await startLocks(busy.url);
    await locks.withLock('warm', () => undefined);
    await redis.config('RESETSTAT');
    const held = await Promise.all([locks.acquire('a', { ttl: 200 }), locks.acquire('b', { ttl: 200 })]);
    const until = performance.now() + 5_000;
    let sections = 0;
    await Promise.all(
      Array.from({ length: 8 }, async (_, n) => {
        while (performance.now() < until) {
          await load.locks.withLock(`load:${n}`, () => undefined);
          sections++;
        }
      }),
    );
    expect(held.every((lock) => lock.held)).toBe(true);
    expect(sections).toBeGreaterThan(100);
    const renewals = (await scriptCalls(redis)) - 2;
    expect(renewals).toBeGreaterThan(20);
    expect(renewals).toBeLessThanOrEqual((2 * 5_200) / (200 / 3));
    await Promise.all(held.map((lock) => lock.release()));
    await load.close();
    await busy.stop();
  });

  it('renews a second of work under a ttl of one second at most four times', async () => {
    const { locks } = await startLocks(server.url);
    await locks.withLock('warm', () => undefined);
    await redis.config('RESETSTAT');
    await locks.withLock('k', () => sleep(1_000), { ttl: 1_000 });
    expect((await scriptCalls(redis)) - 2).toBeLessThanOrEqual(4);
  });

  it('L50: killed with minHold, the key stays that long; released early, too', async () => {
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('cron', { ttl: 300, minHold: 1_200 });
    const grantedAt = performance.now();
    expect(await redis.pttl('cron')).toBeGreaterThan(1_000);
    expect(await lock.release()).toBe('released');
    expect(lock.held).toBe(false);
    expect(await locks.tryAcquire('cron')).toBeNull();
    const next = await locks.acquire('cron', { waitTimeout: 5_000 });
    const waited = performance.now() - grantedAt;
    expect(waited).toBeGreaterThan(1_150);
    await next.release();
  });

  it('is disposed of by `await using` semantics', async () => {
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('k');
    await lock[Symbol.asyncDispose]();
    expect(await redis.exists('k')).toBe(0);
    expect(locks.held()).toEqual([]);
  });

  it('an operator releases it by name, and its holder is told', async () => {
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('k');
    const { signal } = lock;
    expect(locks.held()).toEqual([lock]);
    expect(await locks.forceRelease('k')).toBe(true);
    expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'released' });
    expect(locks.held()).toEqual([]);
    expect(await locks.forceRelease('k')).toBe(false);
  });
});

/** How many scripts ran since the counters were reset. */
async function scriptCalls(redis: Redis): Promise<number> {
  const stats = await redis.info('commandstats');
  return [...stats.matchAll(/cmdstat_(?:evalsha|eval):calls=(\d+)/g)].reduce(
    (sum, [, n]) => sum + Number(n),
    0,
  );
}
