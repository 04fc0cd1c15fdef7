import { Child } from '../support/child.js';
import { seededRandom } from '../support/random.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';

const CHAOS_MS = 60_000;
const PROCESSES = 4;
/** `Date.now()` is cut to the millisecond. */
const CLOCK_GRAIN_MS = 1;

describe('one lock, four processes, and everything that can go wrong', () => {
  let server: RedisServer;
  let ledger: RedisServer;
  let proxies: TcpProxy[];
  const children = new Map<number, Child>();

  beforeAll(async () => {
    [server, ledger] = await Promise.all([RedisServer.start(), RedisServer.start()]);
    proxies = await Promise.all(Array.from({ length: PROCESSES }, () => TcpProxy.start(server.port)));
  });
  afterAll(async () => {
    await Promise.all([...children.values()].map((child) => child.kill()));
    await Promise.all(proxies.map((proxy) => proxy.stop()));
    await Promise.all([server.stop(), ledger.stop()]);
  });

  it(
    '60 s of kills, stops, cuts and script flushes: no overlap but of a holder that knows, no token backwards, everybody served',
    async () => {
      const seed = Date.now() % 100_000;
      const random = seededRandom(seed);
      const pick = (n: number): number => Math.floor(random() * n);
      const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
      const redis = server.client();
      let generation = 0;

      const start = (n: number): void => {
        const name = `p${n}.${generation++}`;
        children.set(n, Child.start('chaos-worker.ts', { args: [proxies[n]!.url, ledger.url, name] }));
        names.set(n, name);
      };
      const names = new Map<number, string>();
      for (let n = 0; n < PROCESSES; n++) start(n);
      await Promise.all([...children.values()].map((child) => child.next({}, 30_000)));

      const faults = [
        async (n: number) => {
          await children.get(n)!.kill();
          start(n);
        },
        async (n: number) => {
          children.get(n)!.pause();
          await sleep(200 + random() * 2_500);
          children.get(n)!.resume();
        },
        async (n: number) => {
          proxies[n]!.cut();
          await sleep(random() * 2_000);
          proxies[n]!.open();
        },
        async (n: number) => {
          proxies[n]!.swallow();
          await sleep(random() * 1_500);
          proxies[n]!.closeConnections();
          proxies[n]!.pass();
        },
        async (n: number) => proxies[n]!.dropReplies(1),
        async () => void (await redis.script('FLUSH')),
        async () => void (await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub')),
      ];
      const until = performance.now() + CHAOS_MS;
      while (performance.now() < until) {
        await faults[pick(faults.length)]!(pick(PROCESSES));
        await sleep(100 + random() * 600);
      }
      for (const proxy of proxies) proxy.calm();
      for (const child of children.values()) child.send({ stop: true });
      const ends = await Promise.all(
        [...children].map(([n, child]) => child.next<{ timeouts: number }>({ done: names.get(n) }, 60_000)),
      );

      const book = ledger.client();
      const entered = await book.hgetall('entered');
      const exited = await book.hgetall('exited');
      const overlaps = (await book.lrange('overlaps', 0, -1)).map(
        (line) => JSON.parse(line) as { inside: string; by: string; at: number },
      );
      // nobody may come before the lock of the one inside has ended by that one's own reckoning, killed or stopped
      const wrong = overlaps.filter(
        ({ inside, at }) =>
          at < Math.max(Number(entered[inside]), Number(exited[inside] ?? 0)) - CLOCK_GRAIN_MS,
      );
      expect({ seed, wrong, violations: await book.lrange('violations', 0, -1) }).toEqual({
        seed,
        wrong: [],
        violations: [],
      });
      expect(Number(await book.get('sections'))).toBeGreaterThan(200);
      expect(ends).toHaveLength(PROCESSES);
    },
    CHAOS_MS + 120_000,
  );
});
