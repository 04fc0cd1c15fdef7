import { Child } from '../support/child.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';

interface Stock {
  heap: number;
  timers: number;
  alive: Record<string, number>;
}

/** Noise of the runtime: 100 000 keys that kept 100 bytes each would be more. */
const NOISE_BYTES = 6_000_000;

describe('what is kept of a lock that nobody uses', () => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());

  it.each([
    ['each key once', 100_000],
    ['each key nested', 10_000],
    ['each key contended', 10_000],
    ['waiters time out', 10_000],
    ['waiters behind a foreign holder time out', 10_000],
  ])(
    'nothing, in the process or in Redis, but fences for their time: %s, %i of them',
    async (scene, count) => {
      const redis = server.client();
      await redis.flushall();
      const child = Child.start('lock-memory.ts', { args: [scene, server.url, String(count)] });
      try {
        if (scene.includes('foreign')) {
          const { key } = await child.next<{ key: string }>({ type: 'hold' }, 60_000);
          await redis.set(key, 'foreign', 'PX', 60_000);
          child.send('held');
        }
        const { before, after } = await child.next<{ before: Stock; after: Stock }>(
          { type: 'stock' },
          120_000,
        );
        expect(after.alive).toEqual({
          KeyLine: 0,
          LocalQueue: 0,
          Waiter: 0,
          Lease: 0,
          Hold: 0,
          LockHandle: 0,
          TurnQueue: 0,
        });
        expect(after.timers).toBeLessThanOrEqual(before.timers);
        expect(after.heap - before.heap).toBeLessThan(NOISE_BYTES);
        const left = (await redis.keys('*')).filter((key) => !/:fence$|^foreign:/.test(key));
        expect(left).toEqual([]);
        child.send('end');
        expect(await child.exited).toEqual({ code: 0, signal: null });
        // ten times their ttl
        if (scene.startsWith('each')) {
          await waitFor(async () => (await redis.keys('{once*}:fence')).length === 0, {
            what: 'the fences to go',
            everyMs: 100,
            timeoutMs: 60_000,
          });
        }
      } finally {
        await child.kill();
      }
    },
    180_000,
  );
});
