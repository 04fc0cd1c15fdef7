import type { Redis } from 'ioredis';
import type { LockManager } from '../../lib/lock/lock-manager.js';
import { closeAllLocks, startLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'none',
    (error: { code: string }) => error.code,
  );
}

describe('acquiring a lock', () => {
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

  it('L3: aborting the wait 1 ms after the send rejects at once and leaves no key', async () => {
    const { locks } = await startLocks(server.url);
    for (let round = 0; round < 20; round++) {
      const controller = new AbortController();
      const waiting = locks.acquire('k', { signal: controller.signal });
      const timer = setTimeout(() => controller.abort(new Error('enough')), round % 3);
      const got = await waiting.then(
        (lock) => lock,
        (error: { code: string; cause: Error }) => error,
      );
      clearTimeout(timer);
      if ('release' in got) await got.release();
      else expect(got).toMatchObject({ code: 'LOCK_ABORTED', cause: { message: 'enough' } });
      await waitFor(async () => (await redis.exists('k')) === 0, { what: 'the key to go' });
    }
    const aborted = locks.acquire('k', { signal: AbortSignal.abort(new Error('before')) });
    await expect(aborted).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    expect(await redis.exists('k')).toBe(0);
  });

  it('L3: an abort while the answer is on its way rejects without waiting for it, and the grant goes back', async () => {
    const { locks } = await startLocks(server.url);
    await redis.call('CLIENT', 'PAUSE', '300', 'ALL');
    const controller = new AbortController();
    const waiting = [
      locks.acquire('k', { signal: controller.signal }),
      locks.acquire(['x', 'y'], { signal: controller.signal }),
    ];
    const startedAt = performance.now();
    setTimeout(() => controller.abort(), 1);
    for (const each of waiting) await expect(each).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    expect(performance.now() - startedAt).toBeLessThan(250);
    await waitFor(async () => (await redis.exists('k', 'x', 'y')) === 0, { what: 'the keys to go' });
    await (await locks.acquire('k', { waitTimeout: '3s' })).release();
    expect(await redis.exists('k', 'x', 'y')).toBe(0);
  });

  it('L23: busy, timed out, store down, lost, aborted, misused: each has its own class and code', async () => {
    const { locks } = await startLocks(server.url);
    const held = await locks.acquire('k');
    expect(await codeOf(locks.acquire('k', { waitTimeout: 0 }))).toBe('LOCK_BUSY');
    expect(await codeOf(locks.acquire('k', { waitTimeout: 30 }))).toBe('LOCK_TIMEOUT');
    expect(await codeOf(locks.acquire('k', { signal: AbortSignal.abort() }))).toBe('LOCK_ABORTED');
    expect(await codeOf(locks.acquire('', {}))).toBe('LOCK_KEY');
    expect(await codeOf(locks.acquire('k', { ttl: 99 }))).toBe('LOCK_CONFIG');
    await redis.del('k');
    expect(await codeOf(held.extend())).toBe('LOCK_LOST');
    await redis.hset('k', 'a', 'hash');
    expect(await codeOf(locks.acquire('k'))).toBe('STORE_UNAVAILABLE');
    locks.refuse();
    expect(await codeOf(locks.acquire('free'))).toBe('LOCK_CLOSED');
    expect(await codeOf(locks.acquire(['free', 'too']))).toBe('LOCK_CLOSED');
  });

  it('L25: 64 single tries on a held key cost at most 64 commands and no subscription', async () => {
    const { locks } = await startLocks(server.url);
    await redis.set('k', 'foreign', 'PX', 60_000);
    await codeOf(locks.acquire('k', { waitTimeout: 0 })); // loads the script
    await redis.config('RESETSTAT');
    const codes = await Promise.all(
      Array.from({ length: 64 }, () => codeOf(locks.acquire('k', { waitTimeout: 0 }))),
    );
    expect(new Set(codes)).toEqual(new Set(['LOCK_BUSY']));
    const stats = await redis.info('commandstats');
    const scripts = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce(
      (n, [, c]) => n + Number(c),
      0,
    );
    expect(scripts).toBeLessThanOrEqual(64);
    expect(stats).not.toMatch(/subscribe/);
  });

  it('a single try is null when busy, a lock when free, and never overtakes those who wait', async () => {
    const { locks } = await startLocks(server.url);
    const held = await locks.acquire('k');
    expect(await locks.tryAcquire('k')).toBeNull();
    const waiting = locks.acquire('k');
    await sleep(20);
    expect(await locks.tryAcquire('k')).toBeNull();
    await held.release();
    await (await waiting).release();
    const taken = await locks.tryAcquire('k');
    expect(taken?.held).toBe(true);
    await taken!.release();
  });

  it('L29: a key that holds application data is refused at once, naming WRONGTYPE and the key', async () => {
    const { locks } = await startLocks(server.url);
    await redis.hset('cart:1', 'sku', 'a');
    const startedAt = performance.now();
    await expect(locks.acquire('cart:1', { waitTimeout: '20s' })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringMatching(/WRONGTYPE.*cart:1|cart:1.*WRONGTYPE/s),
    });
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expect(await redis.hgetall('cart:1')).toEqual({ sku: 'a' });
  });

  it.each([
    ['undefined', undefined],
    ['null', null],
    ['a number', 5],
    ['an object', {}],
    ['empty', ''],
    ['a list with an empty one', ['a', '']],
    ['{} without a tag', '{}'],
    ['a brace that closes nothing', 'a}b'],
    ['an empty tag', '{}x'],
    ['half a surrogate pair', 'a\ud800'],
  ])('L39: a key that is %s is a LockKeyError', async (_name, key) => {
    const { locks } = await startLocks(server.url);
    await expect(locks.acquire(key as string)).rejects.toMatchObject({ code: 'LOCK_KEY' });
  });

  it.each([['{order:7}:pay'], ['with spaces and\ttabs'], ['ünïcödé 锁 🔒'], ['x'.repeat(5_000)]])(
    'L39: the key %p works',
    async (key) => {
      const { locks } = await startLocks(server.url);
      const lock = await locks.acquire(key);
      expect(await redis.get(key)).toBe(lock.token);
      expect(await lock.release()).toBe('released');
    },
  );

  it.each([
    ['ttl', { ttl: 'soon' }],
    ['ttl', { ttl: NaN }],
    ['ttl', { ttl: 99 }],
    ['waitTimeout', { waitTimeout: -1 }],
    ['waitTimeout', { waitTimeout: Infinity }],
    ['maxHold', { maxHold: '' }],
    ['replicas', { replicas: 1 }],
    ['onLost', { onLost: 'shrug' }],
    ['autoExtend', { autoExtend: 'yes' }],
    ['signal', { signal: {} }],
    ['timeout', { timeout: 5 }],
  ])('names a bad option: %s in %p', async (path, options) => {
    const { locks } = await startLocks(server.url);
    await expect(locks.acquire('k', options as never)).rejects.toMatchObject({
      code: 'LOCK_CONFIG',
      faults: [expect.objectContaining({ path })],
    });
    expect(await redis.exists('k')).toBe(0);
  });

  it('L21: SCRIPT FLUSH between any two calls goes unnoticed', async () => {
    const { locks } = await startLocks(server.url);
    const flush = (): Promise<unknown> => redis.script('FLUSH');
    const steps = async (manager: LockManager): Promise<void> => {
      await flush();
      const lock = await manager.acquire('k', { ttl: 300 });
      await flush();
      await lock.extend();
      await flush();
      await sleep(250); // a renewal
      expect(lock.held).toBe(true);
      await flush();
      expect(await manager.inspect('k')).toMatchObject({ token: lock.token });
      await flush();
      expect(await lock.release()).toBe('released');
      await flush();
      await manager.withLock(['a', 'b'], flush);
    };
    await steps(locks);
  });

  it('L34: closing rejects the waiting, lets the sections finish, and leaves nothing held', async () => {
    const { locks } = await startLocks(server.url);
    let finished = 0;
    const sections = Array.from({ length: 10 }, (_, n) =>
      locks.withLock(`s:${n}`, async () => {
        await sleep(200);
        finished++;
      }),
    );
    await waitFor(() => locks.held().length === 10, { what: 'ten sections' });
    const waiting = Array.from({ length: 10 }, (_, n) => codeOf(locks.acquire(`s:${n}`)));
    locks.refuse();
    expect(await Promise.all(waiting)).toEqual(Array(10).fill('LOCK_CLOSED'));
    await locks.drain(5_000);
    expect(finished).toBe(10);
    await Promise.all(sections);
    expect((await redis.keys('s:*')).filter((key) => !key.endsWith(':fence'))).toEqual([]);
    expect(locks.held()).toEqual([]);
  });

  it('L34: a section longer than the drain is aborted and its key released', async () => {
    const { locks } = await startLocks(server.url);
    const section = locks.withLock('k', async (lock) => {
      await new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
      return 'stopped';
    });
    await waitFor(() => locks.held().length === 1, { what: 'the section' });
    await locks.drain(50);
    await expect(section).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'shutdown', result: 'stopped' });
    expect(await redis.exists('k')).toBe(0);
  });

  it('keeps nothing per key once nobody uses it', async () => {
    const { locks } = await startLocks(server.url);
    for (let n = 0; n < 200; n += 20) {
      await Promise.all(Array.from({ length: 20 }, (_, i) => locks.withLock(`m:${n + i}`, () => undefined)));
    }
    const lists = Object.values(locks).filter((value) => value instanceof Map || value instanceof Set);
    expect(lists.every((list) => list.size === 0)).toBe(true);
    expect(locks.held()).toEqual([]);
  });
});
