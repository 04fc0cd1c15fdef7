import { closeAllLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';
import { endOf, Scene, sleep, SURROUNDINGS } from '../support/scene.js';
import { waitFor } from '../support/wait-for.js';

const GIVEN_UP = /STORE_UNAVAILABLE|LOCK_TIMEOUT/;

const SCENARIOS: Array<[string, (scene: Scene) => Promise<void>]> = [
  [
    'L1: given up while the server pauses, it is never renewed, and its key goes',
    async (scene) => {
      const { before, waiting } = await scene.line({ waitTimeout: 500 });
      await scene.crowd();
      const acquired = scene.mine.count('acquired');
      await scene.redis.call('CLIENT', 'PAUSE', '1500', 'ALL');
      // an own holder would hand it on without asking the server
      if (scene.surroundings.from === 'own') expect(await endOf(waiting)).toMatch(GIVEN_UP);
      const released = before.release();
      expect(await endOf(waiting)).toMatch(GIVEN_UP);
      await released;
      await scene.served();
      expect(scene.mine.count('acquired')).toBe(acquired + scene.surroundings.local);
    },
  ],
  [
    'L2: the reply of the acquire is lost: it succeeds with the same token',
    async (scene) => {
      const { before, waiting } = await scene.line();
      await scene.crowd();
      scene.proxy.only('commands').dropReplies(1);
      await before.release();
      const lock = await waiting;
      expect(await scene.redis.get('k')).toBe(lock.token);
      expect(lock.held).toBe(true);
      expect(await lock.release()).toBe('released');
    },
  ],
  [
    'L2: the message of the grant is lost with its connection: it succeeds all the same',
    async (scene) => {
      const { before, waiting } = await scene.line();
      await scene.crowd();
      scene.proxy.only('messages').dropReplies(1);
      await before.release();
      const lock = await waiting;
      expect(await scene.redis.get('k')).toBe(lock.token);
      expect(await lock.release()).toBe('released');
    },
  ],
  [
    'L2: the replies stay away until the caller gives up: no key is left behind',
    async (scene) => {
      const { before, waiting } = await scene.line({ waitTimeout: 700 });
      await scene.crowd();
      scene.proxy.swallow('down');
      if (scene.surroundings.from === 'other') await before.release();
      expect(await endOf(waiting)).toMatch(GIVEN_UP);
      scene.proxy.pass();
      scene.proxy.closeConnections();
      await before.release();
    },
  ],
  [
    'L3: aborted 1 ms after it was asked, or in the moment of the grant, it rejects at once and leaves no key',
    async (scene) => {
      for (const when of ['soon', 'before', 'same tick', 'after'] as const) {
        const controller = new AbortController();
        const { before, waiting } = await scene.line({ signal: controller.signal });
        await scene.crowd();
        if (when === 'soon') await sleep(1);
        if (when === 'soon' || when === 'before') controller.abort(new Error('enough'));
        const released = before.release();
        if (when === 'after') await released;
        controller.abort(new Error('enough'));
        const abortedAt = performance.now();
        const end = await endOf(waiting);
        if (typeof end === 'string') expect(end).toBe('LOCK_ABORTED');
        else expect(await end.release()).toBe('released');
        if (when === 'soon' || when === 'before') expect(end).toBe('LOCK_ABORTED');
        expect(performance.now() - abortedAt).toBeLessThan(1_000);
        await released;
        await scene.served();
      }
    },
  ],
  [
    'L15: held by another for 1.2 times its ttl, it begins with about a full ttl',
    async (scene) => {
      const { before, waiting } = await scene.line({ ttl: 2_500 });
      await scene.crowd();
      await sleep(3_000);
      await before.release();
      const lock = await waiting;
      // what was passed on is extended right after it began
      await waitFor(() => lock.remainingMs > 2_000, { what: 'the full lease', timeoutMs: 1_000 });
      expect(await scene.redis.pttl('k')).toBeGreaterThan(2_000);
      await lock.release();
    },
  ],
  [
    'L23: busy, timed out, aborted, misused, closed: each has its own code, and none of them disturbs the line',
    async (scene) => {
      const { before, waiting } = await scene.line();
      await scene.crowd();
      const { locks } = scene;
      expect(await endOf(locks.acquire('k', { waitTimeout: 0 }))).toBe('LOCK_BUSY');
      expect(await endOf(locks.acquire('k', { waitTimeout: 50 }))).toBe('LOCK_TIMEOUT');
      expect(await endOf(locks.acquire('k', { signal: AbortSignal.timeout(30) }))).toBe('LOCK_ABORTED');
      expect(await endOf(locks.acquire('k', { signal: AbortSignal.abort() }))).toBe('LOCK_ABORTED');
      expect(await endOf(locks.acquire('k', { ttl: 99 }))).toBe('LOCK_CONFIG');
      expect(await endOf(locks.acquire('', {}))).toBe('LOCK_KEY');
      expect(await locks.tryAcquire('k')).toBeNull();
      await before.release();
      await (await waiting).release();
      await scene.served();
      const held = await locks.acquire('k');
      const refused = endOf(locks.acquire('k'));
      locks.refuse();
      expect(await refused).toBe('LOCK_CLOSED');
      await held.release();
    },
  ],
  [
    'L23: a store that goes silent fails those who wait as unavailable, or busy when it had just said so',
    async (scene) => {
      const { before, waiting } = await scene.line({ waitTimeout: 1_500 });
      scene.proxy.swallow('up');
      expect(await endOf(waiting)).toMatch(GIVEN_UP);
      expect(await endOf(scene.locks.acquire('free', { waitTimeout: 300 }))).toBe('STORE_UNAVAILABLE');
      scene.proxy.pass();
      scene.proxy.closeConnections();
      await before.release();
    },
  ],
  [
    'L24: answered after its own deadline, it is no success, unless it truly holds the key; the next one gets it',
    async (scene) => {
      const { before, waiting } = await scene.line({ ttl: 150, autoExtend: false, waitTimeout: 1_500 });
      await scene.crowd();
      scene.proxy.only('commands').delay(250, 'down');
      await before.release();
      const end = await endOf(waiting);
      if (typeof end === 'string') expect(end).toMatch(GIVEN_UP);
      else {
        const [holder, isHeld] = [await scene.redis.get('k'), end.held];
        if (isHeld) expect(holder).toBe(end.token);
        await end.release();
      }
      scene.proxy.calm();
    },
  ],
  [
    'L46: a resent acquire counts from its own send: belief ends before the key does',
    async (scene) => {
      const { before, waiting } = await scene.line({ ttl: 1_000 });
      scene.proxy.only('commands').dropReplies(1);
      await before.release();
      const lock = await waiting;
      await scene.crowd(lock);
      const claim = scene.outsider.acquire('k', { waitTimeout: '25s' });
      let believedUntil = Infinity;
      lock.signal.addEventListener('abort', () => (believedUntil = performance.now()));
      scene.proxy.calm();
      scene.proxy.swallow('up');
      const taken = await claim;
      expect(lock.held).toBe(false);
      expect(believedUntil).toBeLessThanOrEqual(performance.now());
      expect(taken.fencingToken).toBeGreaterThan(lock.fencingToken);
      scene.proxy.pass();
      scene.proxy.closeConnections();
      await lock.release();
      expect(await scene.redis.get('k')).toBe(taken.token);
      await taken.release();
    },
  ],
  [
    'L47: what an old connection sent is applied after its hold ended: nothing of it stays',
    async (scene) => {
      for (let round = 0; round < 4; round++) {
        const { before, waiting } = await scene.line({ ttl: 4_000 });
        await scene.crowd();
        const released = before.release();
        await sleep(round);
        // the server reads the bytes of a closed connection when it goes on, beside those of the new one
        scene.server.pause();
        const late = endOf(scene.locks.acquire('k', { waitTimeout: 400 }));
        await sleep(50);
        scene.proxy.closeConnections();
        await sleep(50);
        scene.server.resume();
        const lock = await waiting;
        await lock.release();
        await released;
        const end = await late;
        if (typeof end !== 'string') await end.release();
        await scene.served();
      }
    },
  ],
];

describe.each(SURROUNDINGS)('acquiring a lock that is $around', (surroundings) => {
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
