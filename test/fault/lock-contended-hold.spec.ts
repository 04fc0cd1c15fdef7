import { closeAllLocks } from '../support/locks.js';
import { Child } from '../support/child.js';
import { RedisServer } from '../support/redis-server.js';
import { endOf, Scene, sleep, SURROUNDINGS } from '../support/scene.js';
import { waitFor } from '../support/wait-for.js';

/** Blocks the event loop, as a long computation would. */
function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

const aborted = (signal: AbortSignal): Promise<number> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(performance.now())));

const SCENARIOS: Array<[string, (scene: Scene) => Promise<void>]> = [
  [
    'L4: cut off for longer than the ttl, it is lost before its deadline, and the next hold is renewed',
    async (scene) => {
      const lock = await scene.take({ ttl: 600 });
      await scene.crowd(lock, { ttl: 600 });
      const lostAt = aborted(lock.signal);
      scene.proxy.cut();
      const deadline = performance.now() + lock.remainingMs;
      expect(await lostAt).toBeLessThan(deadline + 500);
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
      scene.proxy.open();
      const next = await scene.locks.acquire('k', { ttl: 600, waitTimeout: '25s' });
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      await sleep(3 * 600);
      expect(next.held).toBe(true);
      expect(await scene.redis.get('k')).toBe(next.token);
      expect(await lock.release()).toBe('lost');
      expect(await next.release()).toBe('released');
    },
  ],
  [
    'L5: deleted behind its back it is lost at its next tick, and the next hold is renewed',
    async (scene) => {
      scene.mayOverlap = true;
      const lock = await scene.take({ ttl: 400 });
      await scene.crowd(lock, { ttl: 400 });
      const lostAt = aborted(lock.signal);
      await scene.redis.del('k');
      await lostAt;
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
      const next = await scene.locks.acquire('k', { ttl: 400, waitTimeout: '25s' });
      await sleep(3 * 400);
      expect(next.held).toBe(true);
      expect(await lock.release()).toBe('lost');
      expect(await next.release()).toBe('released');
    },
  ],
  [
    'L6: renewals that are swallowed: the signal aborts at the deadline, not later',
    async (scene) => {
      const lock = await scene.take({ ttl: 600 });
      await scene.crowd(lock, { ttl: 600 });
      const lostAt = aborted(lock.signal);
      scene.proxy.swallow('up');
      const deadline = performance.now() + lock.remainingMs;
      expect(await lostAt).toBeLessThan(deadline + 500);
      expect(lock.held).toBe(false);
      scene.proxy.pass();
      scene.proxy.closeConnections();
      await lock.release();
    },
  ],
  [
    'L7: a blocked event loop is noticed by whoever asks first',
    async (scene) => {
      const other = Child.start('lock-user.ts', { args: [scene.server.url] });
      try {
        const work = scene.section(
          async (lock) => {
            await scene.crowd(lock, { ttl: 1_000 });
            other.send({ acquire: 'k', ttl: 10_000, waitTimeout: 25_000 });
            await scene.queued(scene.surroundings.remote + 1);
            block(2_000);
            expect(lock.held).toBe(false);
            expect(() => lock.assertHeld()).toThrow(expect.objectContaining({ code: 'LOCK_LOST' }));
            return lock.fencingToken;
          },
          { ttl: 1_000 },
        );
        await expect(work).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'expired', hasResult: true });
        const { result } = (await work.catch((error: unknown) => error)) as { result: number };
        expect((await other.next<{ fencingToken: number }>({ acquired: 'k' })).fencingToken).toBeGreaterThan(
          result,
        );
        other.send({ release: 'k' });
        expect(await other.next({ released: 'k' })).toMatchObject({ answer: 'released' });
      } finally {
        await other.kill();
      }
    },
  ],
  [
    'L8: a task that never ends is told at maxHold, and the others get the key within one ttl',
    async (scene) => {
      const lock = await scene.take({ ttl: 900, maxHold: 700 });
      await scene.crowd(lock, { ttl: 900 });
      await aborted(lock.signal);
      const toldAt = performance.now();
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'maxHold' });
      await waitFor(() => scene.fences.length > 0, { what: 'the next turn' });
      // the first one's provisional lease may be longer than its ttl
      expect(performance.now() - toldAt).toBeLessThan(1_500 + 1_000);
      expect(await lock.release()).toBe('lost');
    },
  ],
  [
    'L14: a nested acquire with a shorter ttl shortens nothing',
    async (scene) => {
      await scene.section(async (outer) => {
        await scene.crowd(outer);
        await waitFor(() => outer.remainingMs > 20_000, { what: 'the full lease' });
        const inner = await scene.locks.acquire('k', { ttl: 100 });
        expect(inner).toMatchObject({ token: outer.token, fencingToken: outer.fencingToken });
        expect(await scene.redis.pttl('k')).toBeGreaterThan(20_000);
        await sleep(200);
        expect(outer.remainingMs).toBeGreaterThan(20_000);
        expect(await inner.release()).toBe('released');
        expect(await scene.redis.get('k')).toBe(outer.token);
        expect([outer.held, scene.fences]).toEqual([true, []]);
      });
    },
  ],
  [
    'L16: releasing a lock that ran out resolves to lost within one round trip',
    async (scene) => {
      const lock = await scene.take({ ttl: 300, autoExtend: false });
      await scene.crowd(lock, { ttl: 300 });
      await waitFor(() => !lock.held, { what: 'the end of the lease' });
      await sleep(100);
      expect(await lock.release()).toBe('lost');
      expect(await lock.release()).toBe('lost');
    },
  ],
  [
    'L19: may be extended twice, as the same handle',
    async (scene) => {
      const lock = await scene.take({ ttl: 5_000 });
      await scene.crowd(lock, { ttl: 5_000 });
      for (const ttl of [20_000, 40_000]) {
        await lock.extend(ttl);
        expect(lock.remainingMs).toBeGreaterThan(ttl * 0.8);
        expect(await scene.redis.pttl('k')).toBeGreaterThan(ttl * 0.8);
      }
      expect(await lock.release()).toBe('released');
      await expect(lock.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    },
  ],
  [
    'L20: extending a deleted lock says lost and does not create the key again',
    async (scene) => {
      scene.mayOverlap = true;
      const lock = await scene.take();
      await scene.crowd(lock);
      await scene.redis.del('k');
      await expect(lock.extend()).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
      expect(await scene.redis.get('k')).not.toBe(lock.token);
      expect(lock.signal.aborted).toBe(true);
      expect(await lock.release()).toBe('lost');
    },
  ],
  [
    'L21: SCRIPT FLUSH between any two calls goes unnoticed',
    async (scene) => {
      const flush = (): Promise<unknown> => scene.redis.script('FLUSH');
      const { before, waiting } = await scene.line({ ttl: 400 });
      await flush();
      await before.release();
      await flush();
      const lock = await waiting;
      await flush();
      await scene.crowd(lock, { ttl: 400 });
      await flush();
      await lock.extend();
      await flush();
      await sleep(400);
      expect(lock.held).toBe(true);
      await flush();
      expect(await lock.release()).toBe('released');
      for (let n = 0; n < 10; n++) await flush();
    },
  ],
  [
    'L22: a late extend and a late release leave the next holder untouched',
    async (scene) => {
      const late = await scene.take({ ttl: 300, autoExtend: false });
      const next = scene.outsider.acquire('k', { ttl: '20s', waitTimeout: '25s' });
      await scene.queued(1);
      await scene.crowd(late);
      const taken = await next;
      await waitFor(() => taken.remainingMs > 15_000, { what: 'the full lease' });
      expect(await endOf(late.extend('60s'))).toBe('LOCK_LOST');
      expect(await late.release()).toBe('lost');
      expect(await scene.redis.get('k')).toBe(taken.token);
      const left = await scene.redis.pttl('k');
      expect(left).toBeGreaterThan(15_000);
      expect(left).toBeLessThanOrEqual(20_000);
      expect(await taken.release()).toBe('released');
    },
  ],
];

describe.each(SURROUNDINGS)('a held lock that was $around', (surroundings) => {
  let server: RedisServer;
  let scene: Scene;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  beforeEach(async () => {
    await server.client().flushall();
    scene = await Scene.start(server, surroundings);
  });
  afterEach(async () => {
    scene.proxy.calm();
    await closeAllLocks();
    await scene.proxy.stop();
  });
  afterAll(() => server.stop());

  it.each(SCENARIOS)('%s', async (_, play) => {
    await play(scene);
    await scene.served();
  });
});
