import type { Redis } from 'ioredis';
import { Child } from '../support/child.js';
import { closeAllLocks, startLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';
import { endOf, sleep } from '../support/scene.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';

describe('waiting for a lock', () => {
  let server: RedisServer;
  let redis: Redis;
  let proxy: TcpProxy;
  let children: Child[];

  beforeEach(async () => {
    server = await RedisServer.start();
    redis = server.client();
    proxy = await TcpProxy.start(server.port);
    children = [];
  });
  afterEach(async () => {
    proxy.calm();
    await Promise.all(children.map((child) => child.kill()));
    await closeAllLocks();
    await proxy.stop();
    await server.stop();
  });

  function child(): Child {
    const started = Child.start('lock-user.ts', { args: [server.url] });
    children.push(started);
    return started;
  }

  /** Resolves once so many processes stand in the queue. */
  const queued = (n: number, key = 'k'): Promise<unknown> =>
    waitFor(async () => (await redis.zcard(`{${key}}:queue`)) === n, {
      what: `${n} in the queue`,
      timeoutMs: 10_000,
    });

  it('L9: 300 waiters, the holder is killed: all of them get it in turn', async () => {
    const holder = child();
    holder.send({ acquire: 'k', ttl: 2_000 });
    await holder.next({ acquired: 'k' });
    const { locks } = await startLocks(server.url);
    const killedAt = performance.now();
    let firstAt = 0;
    let inside = 0;
    const fences: number[] = [];
    const waiting = Array.from({ length: 300 }, () =>
      locks.withLock(
        'k',
        async (lock) => {
          firstAt ||= performance.now();
          expect(++inside).toBe(1);
          fences.push(lock.fencingToken);
          await Promise.resolve();
          inside--;
        },
        { waitTimeout: '30s' },
      ),
    );
    await holder.kill();
    await Promise.all(waiting);
    expect(firstAt - killedAt).toBeLessThan(2_000 + 1_000 + 500);
    expect(fences).toEqual([...fences].sort((a, b) => a - b));
    expect(new Set(fences).size).toBe(300);
  });

  it('L10: half of the waiting processes are killed: the others are not held up', async () => {
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('k');
    const waiting = Array.from({ length: 6 }, () => child());
    for (const [n, each] of waiting.entries()) {
      each.send({ acquire: 'k', ttl: 10_000, waitTimeout: 30_000 });
      await queued(n + 1);
    }
    await Promise.all([waiting[0], waiting[2], waiting[4]].map((each) => each!.kill()));
    const releasedAt = performance.now();
    await lock.release();
    for (const each of [waiting[1]!, waiting[3]!, waiting[5]!]) {
      await each.next({ acquired: 'k' });
      each.send({ release: 'k' });
      await each.next({ released: 'k' });
    }
    expect(performance.now() - releasedAt).toBeLessThan(1_500);
  });

  it('L11: a waiter that times out while cut off costs the next one 1.5 s at most', async () => {
    const { locks } = await startLocks(server.url);
    const cutOff = await startLocks(proxy.url);
    const next = await startLocks(server.url);
    const lock = await locks.acquire('k');
    const timingOut = cutOff.locks.acquire('k', { waitTimeout: 700 });
    await queued(1);
    const waiting = next.locks.acquire('k', { waitTimeout: '20s' });
    await queued(2);
    proxy.swallow('up');
    proxy.swallow('down');
    await expect(timingOut).rejects.toMatchObject({
      code: expect.stringMatching(/LOCK_TIMEOUT|STORE_UNAVAILABLE/),
    });
    const releasedAt = performance.now();
    await lock.release();
    const got = await waiting;
    expect(performance.now() - releasedAt).toBeLessThan(1_500 + 1_000);
    await got.release();
  });

  it('L12: a killed subscriber connection delays a wait by a second at most, and the channel works again', async () => {
    const { locks } = await startLocks(server.url);
    const other = await startLocks(server.url);
    const lock = await locks.acquire('k');
    const waiting = other.locks.acquire('k', { waitTimeout: '20s' });
    await queued(1);
    await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await lock.release();
    const second = await waiting;
    const again = locks.acquire('k', { waitTimeout: '20s' });
    await queued(1);
    const releasedAt = performance.now();
    await second.release();
    await (await again).release();
    expect(performance.now() - releasedAt).toBeLessThan(900);
  });

  it('L13: without the message of the release the waiter gets it within a second', async () => {
    await redis.acl('SETUSER', 'quiet', 'on', '>pw', '~*', '+@all', 'resetchannels');
    const quiet = await startLocks(`redis://quiet:pw@127.0.0.1:${server.port}`);
    const other = await startLocks(server.url);
    const lock = await quiet.locks.acquire('k', { ttl: '30s' });
    const waiting = other.locks.acquire('k', { waitTimeout: '20s' });
    await queued(1);
    const releasedAt = performance.now();
    await lock.release(); // its PUBLISH is refused
    const got = await waiting;
    expect(performance.now() - releasedAt).toBeLessThan(1_500);
    expect(got.remainingMs).toBeGreaterThan(20_000);
    await got.release();
  });

  it('a process that may not subscribe looks instead, without queueing', async () => {
    await redis.acl('SETUSER', 'deaf', 'on', '>pw', '~*', '+@all', 'resetchannels');
    const deaf = await startLocks(`redis://deaf:pw@127.0.0.1:${server.port}`);
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('k');
    const waiting = deaf.locks.acquire('k', { waitTimeout: '20s' });
    await waitFor(() => deaf.count('contended') > 0, { what: 'the contention' });
    await sleep(200);
    expect(await redis.zcard('{k}:queue')).toBe(0);
    await lock.release();
    await (await waiting).release();
  });

  it('L26: 50 waiters in one process cost five commands a second at most', async () => {
    const { locks } = await startLocks(server.url);
    await redis.set('k', 'foreign', 'PX', 60_000);
    const waiting = Array.from({ length: 50 }, () =>
      locks.acquire('k', { waitTimeout: '3s' }).catch((e: Error) => e),
    );
    await queued(1);
    await redis.config('RESETSTAT');
    await sleep(2_000);
    const stats = await redis.info('commandstats');
    const scripts = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce(
      (n, [, c]) => n + Number(c),
      0,
    );
    expect(scripts).toBeLessThanOrEqual(10);
    for (const each of await Promise.all(waiting)) expect(each).toMatchObject({ code: 'LOCK_TIMEOUT' });
    await waitFor(async () => (await redis.exists('{k}:queue')) === 0, { what: 'the queue to be left' });
  });

  it('L40: a foreign holder is respected and found free within a second of its end; ours blocks a foreign one', async () => {
    const { locks } = await startLocks(server.url);
    await redis.set('k', 'c0ffee00-0000-4000-8000-000000000000', 'PX', 1_500, 'NX');
    const freeAt = performance.now() + 1_500;
    const lock = await locks.acquire('k', { waitTimeout: '10s' });
    expect(performance.now()).toBeGreaterThan(freeAt - 100);
    expect(performance.now() - freeAt).toBeLessThan(1_000 + 300);
    expect(await redis.set('k', 'foreign', 'PX', 1_500, 'NX')).toBeNull();
    await lock.release();
  });

  it('L40: a foreign holder that deletes its key early is found within a second', async () => {
    const { locks } = await startLocks(server.url);
    await redis.set('k', 'foreign', 'PX', 60_000);
    const waiting = locks.acquire('k', { waitTimeout: '10s' });
    await queued(1);
    await redis.del('k');
    const deletedAt = performance.now();
    await (await waiting).release();
    expect(performance.now() - deletedAt).toBeLessThan(1_300);
  });

  it('serves processes first in, first out, and nobody overtakes', async () => {
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('k');
    const order: number[] = [];
    const all: Promise<void>[] = [];
    for (let n = 0; n < 5; n++) {
      const process = await startLocks(server.url);
      all.push(process.locks.withLock('k', () => void order.push(n), { waitTimeout: '20s' }));
      await queued(n + 1);
    }
    const late = await startLocks(server.url);
    expect(await late.locks.tryAcquire('k')).toBeNull();
    await lock.release();
    await Promise.all(all);
    expect(order).toEqual([0, 1, 2, 3, 4]);
  });

  it('L42: a stopped holder notices before its next write, and its fencing token is below the next one', async () => {
    const holder = child();
    holder.send({ acquire: 'k', ttl: 600 });
    const { fencingToken } = await holder.next<{ fencingToken: number }>({ acquired: 'k' });
    holder.pause();
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('k', { waitTimeout: '10s' });
    expect(lock.fencingToken).toBeGreaterThan(fencingToken);
    // the resource: a claim by the new holder refuses the old one, and does not depend on what that one believes
    const claim = (fence: number): Promise<unknown> =>
      redis.eval(
        "if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or 0) then return 0 end redis.call('SET', KEYS[1], ARGV[1]) return 1",
        1,
        'row',
        fence,
      );
    expect([await claim(fencingToken), await claim(lock.fencingToken)]).toEqual([1, 1]);
    holder.resume();
    holder.send({ check: 'k' });
    expect(await holder.next({ checked: 'k' })).toMatchObject({ held: false });
    expect(await claim(fencingToken)).toBe(0);
    await lock.release();
  });

  it('L10: those that still seem to listen cost a provisional lease each', async () => {
    const { locks } = await startLocks(server.url);
    const lock = await locks.acquire('k');
    const waiting = Array.from({ length: 4 }, () => child());
    for (const [n, each] of waiting.entries()) {
      each.send({ acquire: 'k', ttl: 10_000, waitTimeout: 60_000 });
      await queued(n + 1);
    }
    waiting[0]!.pause();
    waiting[2]!.pause();
    const releasedAt = performance.now();
    await lock.release();
    for (const each of [waiting[1]!, waiting[3]!]) {
      await each.next({ acquired: 'k' });
      each.send({ release: 'k' });
      await each.next({ released: 'k' });
    }
    expect(performance.now() - releasedAt).toBeLessThan(2 * (1_500 + 1_000));
    for (const each of [waiting[0]!, waiting[2]!]) {
      each.resume();
      await each.next({ acquired: 'k' });
      each.send({ release: 'k' });
      await each.next({ released: 'k' });
    }
  });

  it('L12: a SUBSCRIBE that fails at first holds a wait up by a look at most', async () => {
    const { locks } = await startLocks(server.url);
    const other = await startLocks(proxy.url);
    const lock = await locks.acquire('k');
    // the connection that carries it closes before it is answered
    const subscribing = proxy.requestSeen('subscribe');
    const waiting = other.locks.acquire('k', { waitTimeout: '20s' });
    await subscribing;
    proxy.only('messages').closeConnections();
    const releasedAt = performance.now();
    await lock.release();
    const got = await waiting;
    expect(performance.now() - releasedAt).toBeLessThan(1_500 + 1_000);
    const again = locks.acquire('k', { waitTimeout: '20s', handoff: false });
    await queued(1);
    await got.release();
    await (await again).release();
  });

  it('L30: with a prefix and a database of the application, waiters are woken', async () => {
    const application = { db: 5, keyPrefix: 'app:', host: '127.0.0.1', port: server.port };
    const { locks } = await startLocks(application);
    const other = await startLocks(application);
    const lock = await locks.acquire('lock:1', { ttl: '30s' });
    const waiting = other.locks.acquire('lock:1', { waitTimeout: '20s' });
    const there = server.client({ db: 5 });
    await waitFor(async () => (await there.zcard('{app:lock:1}:queue')) === 1, { what: 'the queue' });
    const wokenAt = waiting.then(() => performance.now());
    await sleep(50);
    const releasedAt = performance.now();
    await lock.release();
    expect((await wokenAt) - releasedAt).toBeLessThan(700);
    expect(await there.get('app:lock:1')).toBe((await waiting).token);
    expect(await redis.keys('*')).toEqual([]);
    await (await waiting).release();
  });

  it('L34: closing while ten sections run, and ten more and another process wait', async () => {
    const { locks } = await startLocks(server.url);
    const other = await startLocks(server.url);
    let finished = 0;
    const keys = Array.from({ length: 10 }, (_, n) => `s:${n}`);
    const sections = keys.map((key) => locks.withLock(key, () => sleep(300).then(() => finished++)));
    await waitFor(() => locks.held().length === 10, { what: 'ten sections' });
    const waiting = keys.map((key) => endOf(locks.acquire(key)));
    const others = keys.map((key) => other.locks.acquire(key, { waitTimeout: '20s' }));
    await waitFor(async () =>
      (await Promise.all(keys.map((key) => redis.zcard(`{${key}}:queue`)))).every(Boolean),
    );
    const closedAt = performance.now();
    const drained = locks.drain(10_000);
    expect(await Promise.all(waiting)).toEqual(Array(10).fill('LOCK_CLOSED'));
    await drained;
    expect([finished, locks.held()]).toEqual([10, []]);
    await Promise.all(sections);
    for (const lock of await Promise.all(others)) await lock.release();
    // passed on when the sections ended, not when their leases did
    expect(performance.now() - closedAt).toBeLessThan(8_000);
    await waitFor(async () => (await redis.keys('*')).every((key) => key.endsWith(':fence')), {
      what: 'all to go',
    });
  });

  it('leaves nothing in Redis but the fence, and nothing in the process, once nobody waits', async () => {
    const { locks } = await startLocks(server.url);
    const other = await startLocks(server.url);
    const hold = (each: typeof locks, key: string): Promise<unknown> =>
      each.withLock(key, () => sleep(1), { waitTimeout: '20s' });
    await Promise.all(
      Array.from({ length: 40 }, (_, n) => [
        hold(locks, `m:${n % 4}`),
        hold(other.locks, `m:${n % 4}`),
      ]).flat(),
    );
    const timedOut = locks.acquire('m:0', { waitTimeout: 100 });
    const held = await timedOut;
    await expect(other.locks.acquire('m:0', { waitTimeout: 100 })).rejects.toMatchObject({
      code: 'LOCK_TIMEOUT',
    });
    await held.release();
    await waitFor(async () => (await redis.keys('*')).every((key) => key.endsWith(':fence')), {
      what: 'the queues to go',
    });
  });
});
