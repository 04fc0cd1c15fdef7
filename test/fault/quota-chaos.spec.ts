import type { Redis } from 'ioredis';
import { redisBackend } from '../../lib/backend/redis/redis-backend.js';
import { LockManager } from '../../lib/lock/lock-manager.js';
import { QuotaManager } from '../../lib/quota/quota-manager.js';
import { collectShardPlan } from '../../lib/quota/shard-plan.js';
import { Child } from '../support/child.js';
import { seededRandom } from '../support/random.js';
import { RedisCluster } from '../support/redis-cluster.js';
import { RedisServer } from '../support/redis-server.js';

const CHAOS_MS = 60_000;
const PROCESSES = 4;
const PLAIN = 150;
const SPREAD = 160;

/** What the records say that operations hold, by id. */
interface Holdings {
  held: Map<string, number>;
  /** Operations in the middle of being gathered, or given back to several shards. */
  unfinished: string[];
}

/** Reads every record of a quota, whichever shard and period it stands in. */
async function holdings(masters: readonly Redis[], quota: string): Promise<Holdings> {
  const held = new Map<string, number>();
  const unfinished: string[] = [];
  for (const master of masters) {
    const keys = (await master.keys('*:ops:*')).filter((key) => key.startsWith(`{${quota}`));
    for (const key of keys) {
      for (const [field, record] of Object.entries(await master.hgetall(key))) {
        const [kind, id] = field.split(':') as [string, string];
        const [state, first, second] = record.split(':');
        if (kind === 'grant') continue;
        if (state === 'gather' || state === 'returning') unfinished.push(id);
        // of what was gathered the parts count, where they were taken
        const units = state === 'done' ? Number(first) : state === 'part' ? Number(second) : 0;
        if (units > 0) held.set(id, (held.get(id) ?? 0) + units);
      }
    }
  }
  return { held, unfinished };
}

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((total, one) => total + one, 0);

describe('two quotas, one of them spread over a cluster, four processes, and everything that can go wrong', () => {
  let cluster: RedisCluster;
  let ledger: RedisServer;
  const children = new Map<number, { child: Child; name: string }>();

  beforeAll(async () => {
    [cluster, ledger] = await Promise.all([RedisCluster.start(), RedisServer.start()]);
  });
  afterAll(async () => {
    await Promise.all([...children.values()].map(({ child }) => child.kill()));
    await Promise.all([cluster.stop(), ledger.stop()]);
  });

  it(
    '60 s of deductions, refunds, kills, stops, cuts and script flushes: granted - refunded = initial - remaining, to the unit',
    async () => {
      const seed = Date.now() % 100_000;
      const random = seededRandom(seed);
      const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
      const masters = cluster.nodes.map((node) => node.client());
      const book = ledger.client();
      const backend = redisBackend({ redis: cluster.client() });
      await backend.start(20_000);
      const locks = new LockManager({ backend });
      const shards = collectShardPlan({ 'hot:*': 8 }, 'quota.shards', []);
      const quotas = new QuotaManager({ backend, locks, shards });
      await quotas.init('plain', PLAIN);
      await quotas.init('hot:x', SPREAD);

      let generation = 0;
      const ports = cluster.nodes.map(({ port }) => port).join(',');
      const start = (n: number): void => {
        const name = `p${n}.${generation++}`;
        children.set(n, { name, child: Child.start('quota-worker.ts', { args: [ports, ledger.url, name] }) });
      };
      for (let n = 0; n < PROCESSES; n++) start(n);
      await Promise.all([...children.values()].map(({ child, name }) => child.next({ ready: name }, 60_000)));

      /** What the dead one was in the middle of goes to whoever starts next. */
      const bequeath = async (dead: string): Promise<void> => {
        const begun = await book.hgetall('begun');
        const told = new Set([...(await book.hkeys('granted')), ...(await book.hkeys('refused'))]);
        for (const [id, text] of Object.entries(begun)) {
          if ((JSON.parse(text) as { name: string }).name !== dead || told.has(id)) continue;
          await book.rpush('left', text);
        }
      };
      const faults = [
        async (n: number) => {
          const { child, name } = children.get(n)!;
          await child.kill();
          await bequeath(name);
          start(n);
        },
        async (n: number) => {
          children.get(n)!.child.pause();
          await sleep(200 + random() * 2_500);
          children.get(n)!.child.resume();
        },
        async (n: number) =>
          void (await masters[n % 3]!.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')),
        async (n: number) => void (await masters[n % 3]!.script('FLUSH')),
      ];
      const until = performance.now() + CHAOS_MS;
      while (performance.now() < until) {
        await faults[Math.floor(random() * faults.length)]!(Math.floor(random() * PROCESSES));
        await sleep(100 + random() * 700);
      }
      for (const { child } of children.values()) child.send({ stop: true });
      await Promise.all([...children.values()].map(({ child, name }) => child.next({ done: name }, 120_000)));

      const spread = new Set(
        Object.values(await book.hgetall('begun'))
          .map((text) => JSON.parse(text) as { id: string; key: string })
          .filter(({ key }) => key === 'hot:x')
          .map(({ id }) => id),
      );
      const [granted, refused, refunded, returning] = await Promise.all(
        ['granted', 'refused', 'refunded', 'returning'].map((told) => book.hgetall(told)),
      );
      const check = async (key: string, initial: number): Promise<string[]> => {
        const { held, unfinished } = await holdings(masters, key);
        const remaining = (await quotas.remaining(key))!;
        // by the records, to the unit; parts of what a kill left unfinished are records too
        expect({ seed, key, held: sum(held.values()) }).toEqual({ seed, key, held: initial - remaining });
        for (const [id, units] of held) {
          if (unfinished.includes(id)) continue;
          expect({ seed, id, refused: id in refused!, refunded: id in refunded! }).toEqual({
            seed,
            id,
            refused: false,
            refunded: false,
          });
          if (id in granted!) expect({ seed, id, units }).toEqual({ seed, id, units: Number(granted![id]) });
        }
        return unfinished;
      };
      const unfinished = { plain: await check('plain', PLAIN), 'hot:x': await check('hot:x', SPREAD) };
      // what was told is so: granted and never given back is held
      const all = new Map([
        ...(await holdings(masters, 'plain')).held,
        ...(await holdings(masters, 'hot:x')).held,
      ]);
      const lost = Object.keys(granted!).filter((id) => !all.has(id) && !(id in returning!));
      expect({ seed, lost, violations: await book.lrange('violations', 0, -1) }).toEqual({
        seed,
        lost: [],
        violations: [],
      });

      // what a kill left in the middle is put right by a refund, and then nothing is unfinished
      for (const id of unfinished['hot:x']) await quotas.refund('hot:x', id);
      expect(await check('hot:x', SPREAD)).toEqual([]);
      expect(unfinished.plain).toEqual([]);
      for (let shard = 0; shard < 8; shard++) {
        expect(await backend.quotas.remaining(`hot:x:${shard}`, 5_000)).toBeGreaterThanOrEqual(0);
      }
      expect(Object.keys(granted!).length).toBeGreaterThan(200);
      expect(Object.keys(refunded!).length).toBeGreaterThan(100);
      expect(Object.keys(refused!).length).toBeGreaterThan(10);
      // large amounts were gathered, not only refused
      const large = Object.entries(granted!).filter(
        ([id, amount]) => Number(amount) === 20 && spread.has(id),
      );
      expect(large.length).toBeGreaterThan(0);
      await locks.drain(0);
      await backend.close();
    },
    CHAOS_MS + 240_000,
  );
});
