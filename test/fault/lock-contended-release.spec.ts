import { closeAllLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';
import { endOf, Scene, sleep, SURROUNDINGS } from '../support/scene.js';

/** Longer than a turn of hand-offs: then the end of the hold asks the store. */
const OVER_A_TURN_MS = 30;

const SCENARIOS: Array<[string, (scene: Scene) => Promise<void>]> = [
  [
    'L17: the task throws and the release fails as well: the error of the task comes through',
    async (scene) => {
      const mine = new Error('mine');
      const work = scene.section(
        async (lock) => {
          await scene.crowd(lock);
          await sleep(OVER_A_TURN_MS);
          scene.proxy.swallow();
          throw mine;
        },
        { ttl: 5_000 },
      );
      await expect(work).rejects.toBe(mine);
      scene.proxy.pass();
      scene.proxy.closeConnections();
    },
  ],
  [
    'L17: the same when the store refuses the release',
    async (scene) => {
      const mine = new Error('mine');
      const admin = scene.server.client();
      const work = scene.section(
        async (lock) => {
          await scene.crowd(lock);
          await sleep(OVER_A_TURN_MS);
          // out of memory for all that is new, and the scripts unknown: nothing of this may replace the outcome
          await admin.script('FLUSH');
          await admin.config('SET', 'maxmemory', '1');
          throw mine;
        },
        { ttl: 5_000 },
      );
      await expect(work).rejects.toBe(mine);
      await admin.config('SET', 'maxmemory', '0');
    },
  ],
  [
    'L18: the lock runs out after the task had settled: its result comes through',
    async (scene) => {
      const work = scene.section(
        async (lock) => {
          await scene.crowd(lock);
          await sleep(OVER_A_TURN_MS);
          await scene.redis.call('CLIENT', 'PAUSE', '700', 'ALL');
          return 'done';
        },
        { ttl: 600, autoExtend: false },
      );
      await expect(work).resolves.toBe('done');
    },
  ],
  [
    'L43: the reply of the release is dropped and another takes the key: released, no error',
    async (scene) => {
      const lock = await scene.take();
      await scene.crowd(lock);
      await sleep(OVER_A_TURN_MS);
      scene.proxy.only('commands').dropReplies(1);
      expect(await lock.release()).toBe('released');
      await scene.served();
      expect(scene.mine.count('lost')).toBe(0);
    },
  ],
  [
    'L43: also when it is handed on at once, and when the message is lost with it',
    async (scene) => {
      const lock = await scene.take();
      await scene.crowd(lock);
      scene.proxy.dropReplies(1);
      expect(await lock.release()).toBe('released');
      await scene.served();
      expect(scene.mine.count('lost')).toBe(0);
    },
  ],
  [
    'L44: deleted during a task of 50 ms: LockLostError carries the result, and the event is there',
    async (scene) => {
      scene.mayOverlap = true;
      const work = scene.section(async (lock) => {
        await scene.crowd(lock);
        await scene.redis.del('k');
        await sleep(50);
        return { charged: 10 };
      });
      expect(await work.catch((error: unknown) => error)).toMatchObject({
        code: 'LOCK_LOST',
        reason: 'taken',
        hasResult: true,
        result: { charged: 10 },
      });
      expect(scene.mine.count('lost')).toBe(1);
    },
  ],
  [
    'L45: parallel nested sections inside one hold run one after the other, and no update is lost',
    async (scene) => {
      let counter = 0;
      const add = (): Promise<void> =>
        scene.locks.withLock('k', async () => {
          const read = counter;
          await sleep(2);
          counter = read + 1;
        });
      await scene.section(async (lock) => {
        await scene.crowd(lock);
        await Promise.all([
          add(),
          add(),
          scene.locks.withLock('k', () => Promise.all([add(), add()])),
          add(),
        ]);
        expect([counter, scene.fences]).toEqual([5, []]);
      });
    },
  ],
  [
    'a detached branch that outlives its lock waits in line and takes it afresh, on a higher token',
    async (scene) => {
      let detached: Promise<number> | undefined;
      const outer = await scene.section(async (lock) => {
        await scene.crowd(lock);
        const end = sleep(OVER_A_TURN_MS).then(() => lock.release());
        detached = end.then(() =>
          scene.locks.withLock('k', ({ fencingToken }) => fencingToken, { waitTimeout: '25s' }),
        );
        return lock.fencingToken;
      });
      expect(await detached).toBeGreaterThan(outer);
    },
  ],
  [
    'a release that is never answered holds its caller for a second at most, and those behind are served',
    async (scene) => {
      const lock = await scene.take({ ttl: 4_000 });
      await scene.crowd(lock);
      await sleep(OVER_A_TURN_MS);
      scene.proxy.only('commands').swallow('up');
      const startedAt = performance.now();
      const released = endOf(lock.release());
      expect(await released).toMatch(/released|lost/);
      expect(performance.now() - startedAt).toBeLessThan(3_000);
      scene.proxy.calm();
      scene.proxy.closeConnections();
    },
  ],
];

describe.each(SURROUNDINGS)('giving back a lock that was $around', (surroundings) => {
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
