import type { Redis } from 'ioredis';
import type { Lock } from '../../lib/lock/lock.js';
import { Child } from '../support/child.js';
import { closeAllLocks, startLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

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
    holder.resume();
    holder.send({ check: 'k' });
    expect(await holder.next({ checked: 'k' })).toMatchObject({ held: false });
    await lock.release();
  });

  it('a process stopped for 3 s between its grant and its start does not start on a stale lease', async () => {
    const { locks } = await startLocks(server.url);
    const stopped = child();
    const lock = await locks.acquire('k');
    stopped.send({ acquire: 'k', ttl: 10_000, waitTimeout: 60_000 });
    await queued(1);
    stopped.pause();
    await lock.release();
    const next = await locks.acquire('k', { waitTimeout: '20s' });
    await sleep(1_500);
    stopped.resume();
    const started = stopped.next<{ fencingToken: number }>({ acquired: 'k' });
    expect(await Promise.race([started, sleep(1_000).then(() => 'waits')])).toBe('waits');
    await next.release();
    const { fencingToken } = await started;
    expect(fencingToken).toBeGreaterThan(next.fencingToken);
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

  describe('hand-off inside a process', () => {
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
            if (reserved.length % 10 === 0)
              reserved.push(Number(await redis.get('{k}:fence')) >= fencingToken);
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

    it('a key that is lost aborts the holder, and those in line wait properly again', async () => {
      const { locks } = await startLocks(server.url);
      const holder = await locks.acquire('k', { ttl: 600 });
      const { signal } = holder;
      const waiting = Array.from({ length: 10 }, () =>
        locks.withLock('k', ({ fencingToken }) => fencingToken, { ttl: 600, waitTimeout: '20s' }),
      );
      await sleep(20);
      await redis.set('k', 'foreign', 'PX', 900);
      await waitFor(() => signal.aborted, { what: 'the loss' });
      const fences = await Promise.all(waiting);
      expect(Math.min(...fences)).toBeGreaterThan(holder.fencingToken);
      expect(await holder.release()).toBe('lost');
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
  });

  it.each([['30 % of the messages lost'], ['the subscriber connection flaps every 50 ms']])(
    'nobody starves and nothing overlaps when %s',
    async (fault) => {
      const processes = await Promise.all([
        startLocks(server.url),
        startLocks(server.url),
        startLocks(server.url),
      ]);
      const until = performance.now() + (fault.startsWith('30') ? 4_000 : 10_000);
      let inside = 0;
      let last = 0;
      let longest = 0;
      const turns = new Map<string, number>();
      const flapping = (async () => {
        while (performance.now() < until) {
          if (!fault.startsWith('30') || Math.random() < 0.3)
            await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
          await sleep(50);
        }
      })();
      await Promise.all(
        processes.flatMap(({ locks }, p) =>
          Array.from({ length: 4 }, async (_, t) => {
            while (performance.now() < until) {
              const askedAt = performance.now();
              await locks.withLock(
                'k',
                async (lock) => {
                  longest = Math.max(longest, performance.now() - askedAt);
                  expect(++inside).toBe(1);
                  expect(lock.fencingToken).toBeGreaterThan(last);
                  last = lock.fencingToken;
                  await sleep(1);
                  inside--;
                },
                { waitTimeout: '20s' },
              );
              turns.set(`${p}:${t}`, (turns.get(`${p}:${t}`) ?? 0) + 1);
            }
          }),
        ),
      );
      await flapping;
      expect(turns.size).toBe(12);
      expect(longest).toBeLessThan(3_000);
    },
    40_000,
  );

  it('several keys under contention: all or nothing, no deadlock, nobody starves', async () => {
    const processes = await Promise.all([startLocks(server.url), startLocks(server.url)]);
    const sets = [['a', 'b'], ['b', 'c'], ['c', 'a'], ['a'], ['b'], ['c', 'b', 'a']];
    const inside = new Map<string, number>();
    const until = performance.now() + 3_000;
    const turns = new Map<string, number>();
    await Promise.all(
      processes.flatMap(({ locks }, p) =>
        sets.map(async (keys, s) => {
          while (performance.now() < until) {
            await locks.withLock(
              keys,
              async () => {
                for (const key of keys) {
                  inside.set(key, (inside.get(key) ?? 0) + 1);
                  expect(inside.get(key)).toBe(1);
                }
                await sleep(1);
                for (const key of keys) inside.set(key, inside.get(key)! - 1);
              },
              { waitTimeout: '20s' },
            );
            turns.set(`${p}:${s}`, (turns.get(`${p}:${s}`) ?? 0) + 1);
          }
        }),
      ),
    );
    expect(turns.size).toBe(12);
    await waitFor(async () => (await redis.exists('a', 'b', 'c')) === 0, { what: 'the keys to go' });
  }, 40_000);
});
