import type { Redis } from 'ioredis';
import type { Lock } from '../../lib/lock/lock.js';
import { Child } from '../support/child.js';
import { closeAllLocks, startLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';
import { endOf, sleep } from '../support/scene.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';

/** How long a lock that was passed on lasts until its new holder has started. */
const PASSED_ON_MS = 1_500;
/** A look, and a slow machine. */
const GRACE_MS = 1_500;

describe('the process that a lock was passed on to', () => {
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

  const queued = (n: number): Promise<unknown> =>
    waitFor(async () => (await redis.zcard('{k}:queue')) === n, { what: `${n} in the queue` });

  async function waitingChild(place: number): Promise<Child> {
    const child = Child.start('lock-user.ts', { args: [server.url] });
    children.push(child);
    child.send({ acquire: 'k', ttl: 10_000, waitTimeout: 60_000 });
    await queued(place);
    return child;
  }

  /** Releases, and resolves once the key stands under the token of whoever is first in the queue. */
  async function passOn(lock: Lock): Promise<string> {
    // a turn of hand-offs is over: else a task of the same process would be next
    await sleep(30);
    const [first] = await redis.zrange('{k}:queue', '0', '0');
    await lock.release();
    expect(await redis.get('k')).toBe(first);
    return first!;
  }

  describe.each([
    ['a task of the releasing process', ['own']],
    ['another process', ['other']],
    ['both', ['own', 'other', 'own', 'other']],
  ])('with %s behind it', (_, behind) => {
    /** Those behind: each says when it had its turn. */
    async function crowd(locks: Awaited<ReturnType<typeof startLocks>>['locks']): Promise<Promise<number>[]> {
      const other = await startLocks(server.url);
      const places = await redis.zcard('{k}:queue');
      const turns = behind.map((who) =>
        (who === 'own' ? locks : other.locks).withLock('k', ({ fencingToken }) => fencingToken, {
          ttl: '30s',
          waitTimeout: '20s',
        }),
      );
      if (behind.includes('other')) await queued(places + 1);
      return turns;
    }

    it.each([
      ['is killed before it is granted', 'before', 0],
      ['is killed after it was granted, before it starts', 'after', PASSED_ON_MS],
    ])('%s: the next ones are served', async (_name, when, mostMs) => {
      const { locks } = await startLocks(server.url);
      const lock = await locks.acquire('k');
      const dying = await waitingChild(1);
      const turns = await crowd(locks);
      dying.pause();
      if (when === 'before') await dying.kill();
      const releasedAt = performance.now();
      if (when === 'after') {
        await passOn(lock);
        await dying.kill();
      } else await lock.release();
      const fences = await Promise.all(turns);
      expect(performance.now() - releasedAt).toBeLessThan(mostMs + GRACE_MS);
      expect(Math.min(...fences)).toBeGreaterThan(lock.fencingToken);
      expect(new Set(fences).size).toBe(behind.length);
    });

    it('three of them in a row are stopped before their grants: each costs a provisional lease, no more', async () => {
      const { locks } = await startLocks(server.url);
      const lock = await locks.acquire('k');
      const stopped = [await waitingChild(1), await waitingChild(2), await waitingChild(3)];
      const turns = await crowd(locks);
      for (const child of stopped) child.pause();
      const releasedAt = performance.now();
      await lock.release();
      const fences = await Promise.all(turns);
      // they still seem to listen, so nobody may skip them
      expect(performance.now() - releasedAt).toBeLessThan(3 * PASSED_ON_MS + 2 * GRACE_MS);
      expect(Math.min(...fences)).toBeGreaterThan(lock.fencingToken);
    });

    it('is stopped for 3 s: others go on, and it starts later, on a lease of its own', async () => {
      const { locks } = await startLocks(server.url);
      const lock = await locks.acquire('k');
      const stopped = await waitingChild(1);
      const turns = await crowd(locks);
      stopped.pause();
      await passOn(lock);
      const stoppedAt = performance.now();
      const fences = await Promise.all(turns);
      const next = await locks.acquire('k', { waitTimeout: '20s' });
      await sleep(Math.max(0, 3_000 - (performance.now() - stoppedAt)));
      stopped.resume();
      const started = stopped.next<{ fencingToken: number }>({ acquired: 'k' });
      started.catch(() => undefined);
      // its stale grant waits in its socket: it must not start on it
      expect(await Promise.race([started, sleep(700).then(() => 'waits')])).toBe('waits');
      await next.release();
      const { fencingToken } = await started;
      expect(fencingToken).toBeGreaterThan(Math.max(next.fencingToken, ...fences));
      expect(await redis.get('k')).not.toBe(next.token);
      stopped.send({ release: 'k' });
      expect(await stopped.next({ released: 'k' })).toMatchObject({ answer: 'released' });
    });

    it.each([['timed out'], ['was aborted'], ['timed out, with others of its process waiting']])(
      '%s in the moment of the grant: it is passed on at once',
      async (how) => {
        const { locks } = await startLocks(server.url);
        const gone = await startLocks(proxy.url);
        for (let round = 0; round < 3; round++) {
          const lock = await locks.acquire('k', { ttl: '30s', waitTimeout: '20s' });
          const controller = new AbortController();
          const leave = () =>
            endOf(
              gone.locks.acquire('k', {
                waitTimeout: how.startsWith('timed') ? 400 : '20s',
                signal: controller.signal,
              }),
            );
          let leaving = leave();
          // on a busy machine its time may be up before it is seen in the queue
          while (!(await Promise.race([queued(1).then(() => true), leaving.then(() => false)])))
            leaving = leave();
          const staying = how.endsWith('waiting')
            ? gone.locks.withLock('k', () => undefined, { waitTimeout: '20s' })
            : undefined;
          const turns = await crowd(locks);
          // the grant is on its way, but not heard before the caller has gone
          proxy.only('messages').delay(600 + round * 50);
          await passOn(lock);
          const passedAt = performance.now();
          if (!how.startsWith('timed')) controller.abort();
          expect(await leaving).toMatch(/LOCK_TIMEOUT|LOCK_ABORTED/);
          await Promise.all(turns);
          // far less than the provisional lease that nobody uses
          if (!staying) expect(performance.now() - passedAt).toBeLessThan(400 + 700);
          await staying;
          proxy.calm();
          await waitFor(async () => (await redis.exists('k', '{k}:queue')) === 0, { what: 'the key to go' });
        }
      },
    );
  });

  it('a grant that is heard after its waiter has left with a leave that failed goes on at once', async () => {
    const { locks } = await startLocks(server.url);
    const gone = await startLocks(proxy.url);
    const lock = await locks.acquire('k');
    const leaving = endOf(gone.locks.acquire('k', { waitTimeout: 500 }));
    await queued(1);
    const next = locks.acquire('k', { waitTimeout: '20s' });
    proxy.only('commands').swallow('up');
    expect(await leaving).toMatch(/LOCK_TIMEOUT|STORE_UNAVAILABLE/);
    proxy.calm();
    const releasedAt = performance.now();
    await lock.release();
    const got = await next;
    expect(performance.now() - releasedAt).toBeLessThan(PASSED_ON_MS + GRACE_MS);
    await got.release();
    await waitFor(async () => (await redis.exists('k', '{k}:queue')) === 0, { what: 'the key to go' });
  });
});
