import type { Redis } from 'ioredis';
import type { LockManager } from '../../lib/lock/lock-manager.js';
import { closeAllLocks, startLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';
import { sleep } from '../support/scene.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';

const DELAY_MS = 150;

/** Two connections are not ordered: what is told by the one may be known before what is answered on the other. */
describe('a grant that overtakes', () => {
  let server: RedisServer;
  let redis: Redis;
  let proxy: TcpProxy;
  let slow: LockManager;
  let direct: LockManager;
  let fences: number[];
  let inside: number;

  beforeEach(async () => {
    server = await RedisServer.start();
    redis = server.client();
    proxy = await TcpProxy.start(server.port);
    slow = (await startLocks(proxy.url)).locks;
    direct = (await startLocks(server.url)).locks;
    [fences, inside] = [[], 0];
    // both inboxes listen
    const held = await direct.acquire('warm');
    const waiting = slow.acquire('warm', { waitTimeout: '20s' });
    await queued(1, 'warm');
    const again = direct.acquire('warm', { waitTimeout: '20s', handoff: false });
    await held.release();
    await (await waiting).release();
    await (await again).release();
  });
  afterEach(async () => {
    proxy.calm();
    await closeAllLocks();
    await proxy.stop();
    await server.stop();
  });

  const queued = (n: number, key = 'k'): Promise<unknown> =>
    waitFor(async () => (await redis.zcard(`{${key}}:queue`)) === n, { what: `${n} in the queue` });

  /** A section that nobody else may run beside, each on a fencing token above all before it. */
  function section(locks: LockManager, ms = 0, handoff = true): Promise<void> {
    return locks.withLock(
      'k',
      async (lock) => {
        expect(++inside).toBe(1);
        expect(lock.held).toBe(true);
        expect(lock.fencingToken).toBeGreaterThan(fences.at(-1) ?? 0);
        fences.push(lock.fencingToken);
        await sleep(ms);
        expect(lock.held).toBe(true);
        inside--;
      },
      { waitTimeout: '25s', handoff },
    );
  }

  async function nothingLeft(): Promise<void> {
    await waitFor(async () => (await redis.exists('k', '{k}:queue')) === 0, { what: 'the key to go' });
  }

  describe.each([[true], [false]])('with handoff: %p', (handoff) => {
    it('the answer of the look that queued it: it starts once', async () => {
      for (let round = 0; round < 5; round++) {
        const held = await direct.acquire('k');
        proxy.only('commands').delay(DELAY_MS, 'down');
        const turns = [section(slow, 5, handoff), section(slow, 5, handoff), section(slow, 5, handoff)];
        // the look has queued it; its answer is still on its way when the grant comes
        await queued(1);
        await held.release();
        await Promise.all(turns);
        proxy.calm();
        await nothingLeft();
      }
      expect(fences).toHaveLength(15);
      expect(new Set(fences).size).toBe(15);
    });

    it('the answer of its own give-way: it starts once, on the next token', async () => {
      for (let round = 0; round < 5; round++) {
        const held = await slow.acquire('k', { waitTimeout: '20s' });
        const turns = [section(slow, 0, handoff), section(slow, 0, handoff)];
        const others = [section(direct, 0, handoff)];
        await queued(1);
        await sleep(30);
        proxy.only('commands').delay(DELAY_MS, 'down');
        // passed on to the other process, which gives it back before this process knows that it is queued
        const released = held.release();
        await Promise.all(others);
        await Promise.all(turns);
        expect(await released).toBe('released');
        proxy.calm();
        await nothingLeft();
      }
      expect(fences).toHaveLength(15);
    });

    it('the answer of a give-way that never comes: the retried one finds the lock where it is', async () => {
      for (let round = 0; round < 4; round++) {
        const held = await slow.acquire('k', { waitTimeout: '20s' });
        const turns = [section(slow, 0, handoff), section(slow, 0, handoff), section(direct, 0, handoff)];
        await queued(1);
        await sleep(30);
        proxy.only('commands').swallow('down');
        const released = held.release();
        await sleep(100 * round);
        proxy.closeConnections();
        proxy.calm();
        await Promise.all(turns);
        expect(await released).toBe('released');
        await nothingLeft();
      }
    });

    it.each([
      ['the answers of one process are late', 'commands'],
      ['the messages of one process are late', 'messages'],
    ] as const)('under load, while %s', async (_, kind) => {
      const random = [0, 20, 60, 150, 5, 90];
      const until = performance.now() + 3_000;
      const turns = new Map<string, number>();
      const shake = (async () => {
        for (let n = 0; performance.now() < until; n++) {
          proxy.only(kind).delay(random[n % random.length]!, 'down');
          await sleep(40);
        }
        proxy.calm();
      })();
      await Promise.all(
        [slow, direct].flatMap((locks, p) =>
          Array.from({ length: 4 }, async (_task, t) => {
            while (performance.now() < until) {
              await section(locks, 1, handoff);
              turns.set(`${p}:${t}`, (turns.get(`${p}:${t}`) ?? 0) + 1);
            }
          }),
        ),
      );
      await shake;
      expect(turns.size).toBe(8);
      await nothingLeft();
    });
  });

  it('is heard twice, or for a token that is held already: nothing starts twice', async () => {
    const channel = `nestjs-redis-lock:inbox:`;
    const held = await direct.acquire('k');
    const turns = [section(slow, 60), section(slow, 60), section(slow, 60)];
    await queued(1);
    const [token] = await redis.zrange('{k}:queue', '0', '0');
    await held.release();
    await waitFor(() => inside === 1, { what: 'the first section' });
    const time = (await redis.time()).map(Number) as [number, number];
    for (let n = 0; n < 5; n++) {
      const text = `${token} ${fences[0]} ${time[0] * 1e6 + time[1]} k`;
      expect(await redis.publish(channel + token!.slice(0, 23), text)).toBe(1);
      await sleep(25);
    }
    await Promise.all(turns);
    await nothingLeft();
    expect(fences).toHaveLength(3);
  });
});
