import type { Redis } from 'ioredis';
import { closeAllLocks, startLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('locks when the network or the server fails', () => {
  let server: RedisServer;
  let redis: Redis;
  let proxy: TcpProxy;
  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason);

  beforeAll(() => void process.on('unhandledRejection', onUnhandled));
  afterAll(() => {
    process.off('unhandledRejection', onUnhandled);
    expect(unhandled).toEqual([]);
  });
  beforeEach(async () => {
    server = await RedisServer.start();
    redis = server.client();
    proxy = await TcpProxy.start(server.port);
  });
  afterEach(async () => {
    proxy.calm();
    await closeAllLocks();
    await proxy.stop();
    await server.stop();
  });

  it('L1: an acquire that is answered after the caller gave up is never renewed, and its key goes', async () => {
    const { locks, count } = await startLocks(server.url);
    const control = server.client();
    await control.call('CLIENT', 'PAUSE', '1500', 'ALL');
    await expect(locks.acquire('k', { ttl: '30s', waitTimeout: 400 })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      outcome: 'unknown',
    });
    await waitFor(async () => (await redis.exists('k')) === 0, {
      what: 'the pause to end',
      timeoutMs: 5_000,
    });
    await sleep(700);
    expect(await redis.exists('k')).toBe(0);
    expect(count('acquired')).toBe(0);
    await (await locks.acquire('k')).release();
  });

  it('L2: a lost reply of an applied acquire: the retry succeeds with the same token', async () => {
    const { locks } = await startLocks(proxy.url);
    await locks.withLock('warm', () => undefined);
    proxy.dropReplies(1);
    const lock = await locks.acquire('k', { waitTimeout: '4s' });
    expect(await redis.get('k')).toBe(lock.token);
    expect(await lock.release()).toBe('released');
    await waitFor(async () => (await redis.exists('k')) === 0, { what: 'the key to go' });
  });

  it('L2: when the caller gives up instead, no key is left behind', async () => {
    const { locks } = await startLocks(proxy.url);
    await locks.withLock('warm', () => undefined);
    proxy.dropReplies(1);
    await expect(locks.acquire('k', { waitTimeout: 0, ttl: '60s' })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    });
    proxy.dropReplies(1);
    await waitFor(async () => (await redis.exists('k')) === 0, { what: 'the clean-up', timeoutMs: 5_000 });
  });

  it('L2: several keys at once, the same', async () => {
    const { locks } = await startLocks(proxy.url);
    await locks.withLock(['w', 'x'], () => undefined);
    proxy.dropReplies(1);
    const lock = await locks.acquire(['a', 'b'], { waitTimeout: '4s' });
    expect(await redis.get('a')).toBe(lock.token);
    expect(await lock.release()).toBe('released');
    await waitFor(async () => (await redis.exists('a', 'b')) === 0, { what: 'the keys to go' });
    await waitFor(() => proxy.connections > 0, { what: 'the connection' });
    proxy.dropReplies(1);
    await expect(locks.acquire(['a', 'b'], { waitTimeout: 0, ttl: '60s' })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    });
    await waitFor(async () => (await redis.exists('a', 'b')) === 0, {
      what: 'the clean-up',
      timeoutMs: 5_000,
    });
  });

  it('L4: cut off for longer than the ttl, the hold is lost before its deadline; the next one is renewed', async () => {
    const { locks } = await startLocks(proxy.url);
    const first = await locks.acquire('k', { ttl: 500 });
    const { signal } = first;
    let abortedAt = 0;
    signal.addEventListener('abort', () => (abortedAt = performance.now()));
    const deadline = performance.now() + first.remainingMs;
    proxy.cut();
    await waitFor(async () => (await redis.exists('k')) === 0, { what: 'the lease to end' });
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
    expect(abortedAt).toBeLessThan(deadline + 500 + 50);
    proxy.open();
    const second = await locks.acquire('k', { ttl: 500 });
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
    await sleep(1_500);
    expect(second.held).toBe(true);
    expect(await redis.get('k')).toBe(second.token);
    expect(await first.release()).toBe('lost');
    expect(await second.release()).toBe('released');
  });

  it('L6: renewals that are swallowed: the signal aborts at the deadline, while the key still stands', async () => {
    const { locks, count } = await startLocks(proxy.url);
    for (let round = 0; round < 3; round++) {
      const lock = await locks.acquire(`k:${round}`, { ttl: 600 });
      proxy.swallow('up');
      const aborted = new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
      await aborted;
      // the key has 7 % of its life left when its holder stops believing in it
      expect(await redis.exists(`k:${round}`)).toBe(1);
      expect(lock.held).toBe(false);
      proxy.pass();
      proxy.closeConnections();
      await lock.release();
    }
    expect(count('extendFailed')).toBeGreaterThan(0);
    expect(count('lost')).toBe(3);
  });

  it('one failed renewal aborts nothing', async () => {
    const { locks, count } = await startLocks(proxy.url);
    const lock = await locks.acquire('k', { ttl: 900 });
    proxy.dropReplies(1);
    await waitFor(() => count('extendFailed') > 0, { what: 'a failed renewal' });
    await sleep(900);
    expect(lock.held).toBe(true);
    expect(await lock.release()).toBe('released');
  });

  it('L24: an acquire that is answered after its own deadline is released, and the next caller gets it', async () => {
    const { locks, count } = await startLocks(proxy.url);
    await locks.withLock('warm', () => undefined);
    proxy.delay(200, 'down');
    await expect(locks.acquire('k', { ttl: 150, waitTimeout: 0 })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    });
    await expect(locks.acquire('k', { ttl: 150, waitTimeout: 700 })).rejects.toMatchObject({
      code: expect.stringMatching(/STORE_UNAVAILABLE|LOCK_TIMEOUT/),
    });
    expect(count('acquired')).toBe(1); // the warm one
    proxy.pass();
    await (await locks.acquire('k')).release();
  });

  it('L32: connections killed during renewals, 20 times: the lock lives, nothing rejects unheard', async () => {
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('k', { ttl: 1_000 });
    for (let round = 0; round < 20; round++) {
      await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await sleep(100);
    }
    expect(lock.held).toBe(true);
    expect(await lock.release()).toBe('released');
  });

  it('L37: Redis down: rejects inside the budget, works once it is up, and nothing is applied late', async () => {
    await server.kill();
    const { locks } = await startLocks(server.url, { startWithinMs: 100 });
    const startedAt = performance.now();
    await expect(locks.acquire('k', { waitTimeout: 300 })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    });
    const took = performance.now() - startedAt;
    expect(took).toBeGreaterThan(200);
    expect(took).toBeLessThan(2_000);
    await expect(locks.acquire('k', { waitTimeout: 0 })).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
    await server.restart();
    const lock = await locks.acquire('other', { waitTimeout: '10s' });
    expect(await server.client().exists('k')).toBe(0);
    expect(await lock.release()).toBe('released');
  });

  it('L37: everybody who waits behind others is told that the store is down, not that the lock is busy', async () => {
    const { locks } = await startLocks(server.url);
    server.pause();
    const codes = await Promise.all(
      Array.from({ length: 5 }, () =>
        locks.acquire('k', { waitTimeout: 400 }).then(
          () => 'none',
          (error: { code: string }) => error.code,
        ),
      ),
    );
    server.resume();
    expect(new Set(codes)).toEqual(new Set(['STORE_UNAVAILABLE']));
    await waitFor(async () => (await redis.exists('k')) === 0, { what: 'the clean-up' });
  });

  it('L38: a restart with an empty store loses the lock, and the fencing token still rises', async () => {
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('k', { ttl: 900 });
    await server.restart();
    await waitFor(() => !lock.held, { what: 'the loss' });
    const next = await locks.acquire('k', { waitTimeout: '10s' });
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await lock.release()).toBe('lost');
    expect(await server.client().get('k')).toBe(next.token);
  });

  it('L41: out of memory: acquire fails and says OOM, extend and release of a held lock work', async () => {
    const { locks } = await startLocks(server.url);
    const held = await locks.acquire('held', { ttl: 600 });
    await redis.config('SET', 'maxmemory-policy', 'noeviction');
    await redis.config('SET', 'maxmemory', '1');
    await expect(locks.acquire('k', { waitTimeout: '10s' })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringContaining('OOM'),
    });
    await held.extend();
    await sleep(700);
    expect(held.held).toBe(true);
    expect(await held.release()).toBe('released');
    expect(await redis.exists('held')).toBe(0);
  });

  it('L43: the reply of a release is dropped and a waiter takes the key: released, no error', async () => {
    const { locks } = await startLocks(proxy.url);
    const other = await startLocks(server.url);
    const lock = await locks.acquire('k', { ttl: '10s' });
    const waiting = other.locks.acquire('k', { waitTimeout: '10s' });
    proxy.dropReplies(1);
    expect(await lock.release()).toBe('released');
    const taken = await waiting;
    expect(taken.held).toBe(true);
    expect(await redis.get('k')).toBe(taken.token);

    const { count } = other;
    proxy.dropReplies(1);
    await expect(locks.withLock('w', () => 'done', { waitTimeout: '4s' })).resolves.toBe('done');
    expect(count('lost')).toBe(0);
    await taken.release();
  });

  it('a release that is never answered holds its caller for a second at most, and the outcome comes through', async () => {
    const { locks } = await startLocks(proxy.url);
    const startedAt = performance.now();
    const work = locks.withLock(
      'k',
      () => {
        proxy.swallow('up');
        return 'done';
      },
      { ttl: '20s' },
    );
    await expect(work).resolves.toBe('done');
    const took = performance.now() - startedAt;
    expect(took).toBeGreaterThan(900);
    expect(took).toBeLessThan(3_000);
    proxy.pass();
    proxy.closeConnections();
    await waitFor(async () => (await redis.exists('k')) === 0, {
      what: 'the retried release',
      timeoutMs: 10_000,
    });
  });

  it('L46: a resent acquire counts from its own send: belief ends before the key does', async () => {
    const { locks } = await startLocks(proxy.url);
    const other = await startLocks(server.url);
    await locks.withLock('warm', () => undefined);
    proxy.dropReplies(1);
    const lock = await locks.acquire('k', { ttl: 1_000, waitTimeout: '5s' });
    proxy.swallow('up');
    const claim = other.locks.acquire('k', { waitTimeout: '10s' });
    const believedUntil = new Promise<number>((resolve) =>
      lock.signal.addEventListener('abort', () => resolve(performance.now())),
    );
    const taken = await claim;
    const takenAt = performance.now();
    expect(lock.held).toBe(false);
    expect(await believedUntil).toBeLessThanOrEqual(takenAt);
    expect(taken.fencingToken).toBeGreaterThan(lock.fencingToken);
    proxy.pass();
    proxy.closeConnections();
    await lock.release();
    expect(await redis.get('k')).toBe(taken.token);
  });

  it('L47: a late copy of an acquire that had been retried does not outlive its hold', async () => {
    const { locks } = await startLocks(proxy.url);
    await locks.withLock('warm', () => undefined);
    proxy.dropReplies(1);
    const lock = await locks.acquire('k', { ttl: '30s', waitTimeout: '4s' });
    await lock.release();
    // the server applies the old connection's command only now
    await redis.set('k', lock.token, 'PX', 30_000);
    await waitFor(async () => (await redis.exists('k')) === 0, { what: 'the clean-up', timeoutMs: 4_000 });
  });
});
