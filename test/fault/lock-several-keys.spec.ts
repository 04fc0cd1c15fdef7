import { closeAllLocks, startLocks } from '../support/locks.js';
import { seededRandom } from '../support/random.js';
import { RedisCluster } from '../support/redis-cluster.js';
import { RedisServer } from '../support/redis-server.js';
import { endOf, sleep } from '../support/scene.js';
import { SectionWorkers } from '../support/section-workers.js';
import { waitFor } from '../support/wait-for.js';

const KEYS = ['a', 'b', 'c', 'd', 'e'];

describe('several keys under contention', () => {
  let server: RedisServer;
  let ledger: RedisServer;
  let workers: SectionWorkers | undefined;

  beforeEach(async () => {
    [server, ledger] = await Promise.all([RedisServer.start(), RedisServer.start()]);
  });
  afterEach(async () => {
    await workers?.kill();
    workers = undefined;
    await closeAllLocks();
    await Promise.all([server.stop(), ledger.stop()]);
  });

  const nothingLeft = (keys: readonly string[] = KEYS): Promise<unknown> =>
    waitFor(
      async () => (await server.client().exists(...keys, ...keys.map((key) => `{${key}}:queue`))) === 0,
      {
        what: 'the keys to go',
      },
    );

  it.each([[true], [false]])(
    'random sets from two processes: all or nothing, no deadlock, rising tokens, nobody starves (handoff: %p)',
    async (handoff) => {
      workers = await SectionWorkers.start([server.url, server.url], ledger, {
        tasks: 8,
        keys: KEYS,
        mostKeys: 4,
        ttl: 10_000,
        handoff,
      });
      await sleep(4_000);
      const reports = await workers.finish();
      expect(await workers.faults()).toEqual({ overlaps: [], refused: [] });
      for (const { turns, failures, longestWaitMs } of reports) {
        expect(failures).toEqual({});
        expect(Math.min(...turns)).toBeGreaterThan(0);
        expect(longestWaitMs).toBeLessThan(10_000);
      }
      await nothingLeft();
    },
    90_000,
  );

  it('random sets while their time runs out: whoever gives up leaves nothing held and nobody waiting', async () => {
    const processes = await Promise.all([startLocks(server.url), startLocks(server.url)]);
    const random = seededRandom(11);
    const some = (): string[] => KEYS.filter(() => random() < 0.5).concat(KEYS[0]!);
    const inside = new Set<string>();
    let served = 0;
    const ends = await Promise.all(
      Array.from({ length: 200 }, async (_, n) => {
        await sleep(random() * 300);
        const keys = some();
        return endOf(
          processes[n % 2]!.locks.withLock(
            keys,
            async (lock) => {
              for (const key of lock.keys) {
                expect(inside.has(key)).toBe(false);
                inside.add(key);
              }
              await sleep(random() * 20);
              for (const key of lock.keys) inside.delete(key);
              served++;
              return 'served';
            },
            { waitTimeout: 20 + random() * 400 },
          ),
        );
      }),
    );
    // on a slow machine 20 ms may pass before the store has said anything
    for (const end of ends) expect(['served', 'LOCK_TIMEOUT', 'STORE_UNAVAILABLE']).toContain(end);
    expect(ends).toContain('LOCK_TIMEOUT');
    expect(served).toBeGreaterThan(0);
    await nothingLeft();
    for (const { locks } of processes) {
      expect(locks.held()).toEqual([]);
      await (await locks.acquire(KEYS, { waitTimeout: '5s' })).release();
    }
  });

  it('a single caller gets all of them while others take one each, again and again', async () => {
    const { locks } = await startLocks(server.url);
    const other = await startLocks(server.url);
    const enough = new AbortController();
    const busy = KEYS.flatMap((key) =>
      [locks, other.locks].map(async (by) => {
        while (!enough.signal.aborted) await by.withLock(key, () => sleep(2), { waitTimeout: '20s' });
      }),
    );
    for (let round = 0; round < 10; round++) {
      await locks.withLock(KEYS, async (lock) => expect(lock.keys).toEqual(KEYS), { waitTimeout: '20s' });
    }
    enough.abort();
    await Promise.all(busy);
    await nothingLeft();
  });

  it('one of the keys is lost while the rest is waited for: it is taken again, and counts from then', async () => {
    const { locks } = await startLocks(server.url);
    const other = await startLocks(server.url);
    const blocked = await other.locks.acquire('c');
    const options = { ttl: 900, waitTimeout: '20s' } as const;
    const waiting = locks.acquire(['a', 'b', 'c'], options);
    await waitFor(async () => (await server.client().zcard('{c}:queue')) === 1, { what: 'the wait for c' });
    await server.client().del('a');
    const thief = await other.locks.acquire('a', { waitTimeout: 0 });
    await sleep(1_000);
    await blocked.release();
    expect(await Promise.race([waiting, sleep(300).then(() => 'waits')])).toBe('waits');
    await thief.release();
    const lock = await waiting;
    expect(lock.held).toBe(true);
    expect(lock.fencingToken).toBeGreaterThan(Math.max(blocked.fencingToken, thief.fencingToken));
    expect(await server.client().exists('a', 'b', 'c')).toBe(3);
    expect(await lock.release()).toBe('released');
    await nothingLeft();
  });

  it('on a Cluster, over many slots: opposite orders from two processes, no deadlock, nothing left', async () => {
    const cluster = await RedisCluster.start();
    try {
      const processes = await Promise.all([startLocks(cluster.client()), startLocks(cluster.client())]);
      const inside = new Set<string>();
      await Promise.all(
        Array.from({ length: 120 }, (_, n) => {
          const keys = n % 3 === 0 ? ['x', 'y', 'z'] : n % 3 === 1 ? ['z', 'x'] : ['y', 'z'];
          return processes[n % 2]!.locks.withLock(
            keys,
            async () => {
              for (const key of keys) {
                expect(inside.has(key)).toBe(false);
                inside.add(key);
              }
              await sleep(1);
              for (const key of keys) inside.delete(key);
            },
            { waitTimeout: '60s' },
          );
        }),
      );
      const application = cluster.client();
      for (const key of ['x', 'y', 'z']) {
        await waitFor(async () => (await application.exists(key)) === 0, { what: `${key} to go` });
      }
      await closeAllLocks();
    } finally {
      await cluster.stop();
    }
  }, 90_000);
});
