import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { AcquireRequest, Backend } from '../../lib/backend/backend.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { closeBackends, lease, startBackend, storeError, TIMEOUT_MS } from './redis-fixture.js';

describe('many locks in one tick', () => {
  let server: RedisServer;
  let redis: Redis;
  let backend: Backend;

  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  beforeEach(async () => {
    await redis.flushall();
    backend = await startBackend({ redis: server.url });
  });
  afterEach(closeBackends);
  afterAll(() => server.stop());

  const leases = (count: number, name = 'k'): AcquireRequest[] =>
    Array.from({ length: count }, (_, at) => lease(`${name}:${at}`));
  const acquire = (request: AcquireRequest, on = backend) => on.locks.acquire(request, TIMEOUT_MS);
  const release = (request: AcquireRequest, on = backend) =>
    on.locks.release({ ...request, keepMs: 0 }, TIMEOUT_MS);
  const scriptsRun = async (): Promise<number> =>
    [...(await redis.info('commandstats')).matchAll(/cmdstat_evalsha:calls=(\d+)/g)].reduce(
      (sum, [, calls]) => sum + Number(calls),
      0,
    );

  it('go out together: 200 acquires are 8 commands, and so are their releases', async () => {
    const many = leases(200);
    await redis.config('RESETSTAT');
    const replies = await Promise.all(many.map((one) => acquire(one)));
    expect(await scriptsRun()).toBe(8);
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set(['granted']));
    for (const { key, token } of many) expect(await redis.get(key)).toBe(token);
    expect(await redis.pttl('k:150')).toBeGreaterThan(29_000);
    expect(await redis.pttl('{k:150}:fence')).toBeGreaterThan(599_000);
    await redis.config('RESETSTAT');
    expect(new Set(await Promise.all(many.map((one) => release(one))))).toEqual(new Set(['released']));
    expect(await scriptsRun()).toBe(8);
    expect(await redis.keys('k:*')).toEqual([]);
  });

  it('one that is asked for while nothing is under way is sent at once', async () => {
    await redis.config('RESETSTAT');
    for (const one of leases(5)) await acquire(one);
    expect(await scriptsRun()).toBe(5);
  });

  it('each is answered as if alone, whatever stands under its name', async () => {
    const warm = acquire(lease('warm'));
    const ahead = (Date.now() + 3_600_000) * 1_000;
    const mine = lease('mine');
    await redis
      .multi()
      .set('held', 'foreign', 'PX', 60_000)
      .set('for-ever', 'foreign')
      .set('mine', mine.token, 'PX', 1_000)
      .hset('hash', 'field', 'value')
      .hset('{no-fence}:fence', 'field', 'value')
      .set('{ahead}:fence', String(ahead))
      .zadd('{awaited}:queue', 1, randomUUID())
      .set('{no-queue}:queue', 'text')
      .exec();
    await warm;
    const [, free, held, forEver, again, hash, noFence, after, awaited, noQueue] = await Promise.allSettled([
      acquire(lease('first')),
      acquire(lease('free')),
      acquire(lease('held')),
      acquire(lease('for-ever')),
      acquire(mine),
      acquire(lease('hash')),
      acquire(lease('no-fence')),
      acquire(lease('ahead')),
      acquire(lease('awaited')),
      acquire(lease('no-queue')),
    ]);
    expect(free).toMatchObject({ value: { status: 'granted' } });
    expect(held).toMatchObject({ value: { status: 'busy', key: 'held' } });
    expect((held as { value: { remainingMs: number } }).value.remainingMs).toBeGreaterThan(50_000);
    expect(forEver).toMatchObject({ value: { status: 'busy', key: 'for-ever', remainingMs: -1 } });
    expect(again).toMatchObject({ value: { status: 'granted' } });
    expect(await redis.pttl('mine')).toBeGreaterThan(20_000);
    for (const refused of [hash, noFence, noQueue]) {
      expect(refused).toMatchObject({ reason: { message: expect.stringContaining('WRONGTYPE') } });
    }
    expect(after).toMatchObject({ value: { status: 'granted', fencingToken: ahead + 1 } });
    // the one that waited was dead
    expect(awaited).toMatchObject({ value: { status: 'granted' } });
    expect(await redis.exists('no-fence', 'no-queue')).toBe(0);
  });

  it('each release is answered as if alone, and passed on where somebody waits', async () => {
    const many = leases(4);
    for (const one of many) await acquire(one);
    await backend.locks.inbox.open(10_000);
    const token = `${backend.tokenPrefix}-000000000001`;
    await acquire({ ...many[1]!, token, queue: true });
    await redis.set('k:2', 'foreign');
    await redis.del('k:3');
    await redis.hset('hash', 'field', 'value');
    const replies = await Promise.all([
      release(lease('first')),
      ...many.map((one) => release(one)),
      release(lease('hash')),
    ]);
    expect(replies).toEqual(['gone', 'released', 'released', 'foreign', 'gone', 'foreign']);
    expect(await redis.get('k:1')).toBe(token);
    expect(await redis.get('k:2')).toBe('foreign');
    expect(await redis.exists('k:0')).toBe(0);
  });

  it('of two on one key, the first comes first', async () => {
    const [first, second] = [lease('k'), lease('k')];
    const [, one, two] = await Promise.all([acquire(lease('warm')), acquire(first), acquire(second)]);
    expect([one.status, two.status]).toEqual(['granted', 'busy']);
    const [, released, granted] = await Promise.all([
      release(lease('warm')),
      release(first),
      acquire(second),
    ]);
    expect([released, granted.status]).toEqual(['released', 'granted']);
  });

  it('locks with other terms have their own, and each ends in its own time', async () => {
    const short = { ...lease('short', 1_000), ttlMs: 1_000 };
    const [, , reply] = await Promise.all([acquire(lease('a')), acquire(lease('b')), acquire(short)]);
    expect(reply.status).toBe('granted');
    expect(await redis.pttl('short')).toBeLessThanOrEqual(1_000);
    expect(await redis.pttl('b')).toBeGreaterThan(20_000);
  });

  it('L21: SCRIPT FLUSH goes unnoticed', async () => {
    const many = leases(10);
    await redis.script('FLUSH');
    const replies = await Promise.all(many.map((one) => acquire(one)));
    expect(replies.every(({ status }) => status === 'granted')).toBe(true);
    await redis.script('FLUSH');
    expect(new Set(await Promise.all(many.map((one) => release(one))))).toEqual(new Set(['released']));
  });

  it('an acquire that is given up before it went out leaves nothing', async () => {
    const [mine, other] = [lease('mine'), lease('other')];
    const all = [acquire(lease('warm')), acquire(mine), acquire(other)];
    await backend.locks.abandon(mine);
    await Promise.all(all);
    expect(await redis.get('mine')).toBeNull();
    expect(await redis.get('other')).toBe(other.token);
  });

  it('an acquire that is given up before it is asked alone leaves nothing', async () => {
    const mine = lease('mine');
    // held under its own token: to be asked alone
    await redis.set('mine', mine.token, 'PX', 60_000);
    const all = [acquire(lease('warm')), acquire(mine), acquire(lease('other'))];
    await new Promise((resolve) => process.nextTick(resolve));
    const done = backend.locks.abandon(mine);
    await Promise.allSettled([...all, done]);
    expect(await redis.get('mine')).toBeNull();
  });

  it('after close() each is refused, surely not applied', async () => {
    const many = leases(5);
    const first = acquire(many[0]!);
    const rest = many.slice(1).map((one) => storeError(acquire(one)));
    await Promise.all([backend.close(), first.catch(() => undefined)]);
    for (const [at, one] of rest.entries()) {
      const error = await one;
      expect(error).toMatchObject({ outcome: 'notApplied', retryable: false, keys: [many[at + 1]!.key] });
      expect(error.message).toMatch(/^The store is closed/);
    }
  });

  describe('when answers are lost', () => {
    let proxy: TcpProxy;
    let far: Backend;

    beforeEach(async () => {
      proxy = await TcpProxy.start(server.port);
      far = await startBackend({ redis: proxy.url });
    });
    afterEach(async () => {
      await closeBackends();
      await proxy.stop();
    });

    it('L2: each is told of its own key, succeeds when it is sent again, and leaves nothing when it is not', async () => {
      const many = leases(20);
      proxy.dropReplies(1);
      const errors = await Promise.all(many.map((one) => storeError(acquire(one, far))));
      for (const [at, error] of errors.entries()) {
        expect(error).toMatchObject({ outcome: 'unknown', retryable: true, keys: [`k:${at}`] });
        expect(error.message).toContain(`"k:${at}"`);
        expect(error.message).not.toContain(`"k:${at + 1}"`);
      }
      await far.whenReady(10_000);
      const [again, givenUp] = [many.slice(0, 10), many.slice(10)];
      const replies = await Promise.all(again.map((one) => acquire(one, far)));
      expect(replies.every(({ status }) => status === 'granted')).toBe(true);
      await Promise.all(givenUp.map((one) => far.locks.abandon({ ...one, leaseMs: 100 })));
      expect(await redis.exists(...givenUp.map(({ key }) => key))).toBe(0);
    });

    it('L47: a late batch is behind nobody: on its connection the clean-up of each stands behind it', async () => {
      const many = leases(10);
      proxy.delay(300, 'up');
      await Promise.all(many.map((one) => storeError(far.locks.acquire(one, 50))));
      await Promise.all(many.map((one) => far.locks.abandon(one)));
      expect(await redis.exists(...many.map(({ key }) => key))).toBe(0);
      await waitFor(async () => (await redis.exists('{k:9}:fence')) === 1);
    });
  });
});
