import { Child } from '../support/child.js';
import { seededRandom } from '../support/random.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';

const CHAOS_MS = 60_000;
const PROCESSES = 2;
const MOST_KEYS = 5_000;
const DELIVERIES = 4;
/** Between the deliveries of one key; a lease is 1.5 s. */
const SPREAD_MS = 6_000;

interface Answer {
  id: number;
  key: string;
  value?: string;
  replayed?: boolean;
  attempt?: number;
  code?: string;
}

interface Run {
  run: string;
  process: string;
  attempt: number;
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('payments delivered four times to two processes, and everything that can go wrong', () => {
  let server: RedisServer;
  let ledger: RedisServer;
  let proxies: TcpProxy[];
  const children = new Map<number, { child: Child; name: string }>();

  beforeAll(async () => {
    [server, ledger] = await Promise.all([RedisServer.start(), RedisServer.start()]);
    proxies = await Promise.all(Array.from({ length: PROCESSES }, () => TcpProxy.start(server.port)));
  });
  afterAll(async () => {
    await Promise.all([...children.values()].map(({ child }) => child.kill()));
    await Promise.all(proxies.map((proxy) => proxy.stop()));
    await Promise.all([server.stop(), ledger.stop()]);
  });

  it(
    '60 s of kills and cut connections: one outcome a key, nothing stuck, and every further run is a visible attempt of a run that died or knew',
    async () => {
      const seed = Date.now() % 100_000;
      const random = seededRandom(seed);
      const pick = (n: number): number => Math.floor(random() * n);
      const redis = server.client();
      const killed = new Set<string>();
      const answers: Answer[] = [];
      let generation = 0;
      let sent = 0;

      const start = async (n: number): Promise<void> => {
        const name = `p${n}.${generation++}`;
        const child = Child.start('idempotency-chaos-worker.ts', {
          args: [proxies[n]!.url, ledger.url, name],
        });
        await child.next({ ready: name }, 60_000);
        children.set(n, { child, name });
        child.onMessage((message) => answers.push(message as Answer));
      };
      await Promise.all(proxies.map((_, n) => start(n)));

      // who delivers: a rate that two busy cores can take, fewer keys where they cannot
      const deliver = (key: string): void => {
        const up = [...children.values()];
        if (up.length > 0) up[pick(up.length)]!.child.send({ id: sent++, key });
      };
      const keys: string[] = [];
      const timers = new Set<NodeJS.Timeout>();
      const until = performance.now() + CHAOS_MS;
      const delivering = (async () => {
        while (performance.now() < until - SPREAD_MS && keys.length < MOST_KEYS) {
          for (let n = 0; n < 5 && keys.length < MOST_KEYS; n++) {
            const key = `payment:${keys.length}`;
            keys.push(key);
            for (let delivery = 0; delivery < DELIVERIES; delivery++) {
              const afterMs = delivery === 0 ? 0 : delivery === 1 ? random() * 30 : random() * SPREAD_MS;
              const timer = setTimeout(() => {
                timers.delete(timer);
                deliver(key);
              }, afterMs);
              timers.add(timer);
            }
          }
          await sleep(50);
        }
      })();

      const faults = [
        async (n: number) => {
          const { child, name } = children.get(n)!;
          killed.add(name);
          children.delete(n);
          await child.kill();
          await start(n);
        },
        async (n: number) => {
          proxies[n]!.cut();
          await sleep(random() * 2_500);
          proxies[n]!.open();
        },
        async (n: number) => {
          proxies[n]!.swallow();
          await sleep(random() * 2_000);
          proxies[n]!.closeConnections();
          proxies[n]!.pass();
        },
        async (n: number) => proxies[n]!.closeConnections(),
        async (n: number) => proxies[n]!.dropReplies(1 + pick(5)),
        async () => void (await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub')),
        async () => void (await redis.script('FLUSH')),
      ];
      while (performance.now() < until) {
        await faults[pick(faults.length)]!(pick(PROCESSES));
        await sleep(200 + random() * 800);
      }
      for (const proxy of proxies) proxy.calm();
      await delivering;
      while (timers.size > 0) await sleep(100);

      // calm: whatever is still owned ends with its lease, and one more delivery of each key must end well
      const last = await finalAnswers(keys);
      const book = ledger.client();
      const knew = new Set(await book.smembers('knew'));
      const storedRuns = new Set(await book.smembers('stored'));
      const wrong: unknown[] = [];
      let further = 0;
      for (const key of keys) {
        const runs = (await book.lrange(`runs:${key}`, 0, -1)).map((text) => JSON.parse(text) as Run);
        const given = answers.filter((answer) => answer.key === key);
        const stored = new Set([...given, last.get(key)!].filter((a) => a.replayed).map((a) => a.value));
        if (stored.size > 1) wrong.push({ key, why: 'two stored outcomes', runs, given });
        if (runs.length === 0) wrong.push({ key, why: 'accepted and never run', given });
        // every run but the one whose outcome is stored died with its process, or knew that its lease was lost
        const outcome = last.get(key)!.value;
        for (const { run, process } of runs) {
          const excused = !storedRuns.has(run) && (killed.has(process) || knew.has(run));
          if (run !== outcome && !excused) {
            wrong.push({ key, why: 'a run beside another that neither died nor knew', runs, given });
          }
        }
        further += runs.length - 1;
        const attempts = runs.map(({ attempt }) => attempt);
        if (new Set(attempts).size !== attempts.length || Math.max(...attempts) < runs.length) {
          wrong.push({ key, why: 'a further run that does not show as an attempt', runs });
        }
      }
      expect({ seed, wrong: wrong.slice(0, 5), count: wrong.length }).toEqual({ seed, wrong: [], count: 0 });
      expect(keys.length).toBeGreaterThan(300);
      expect(killed.size).toBeGreaterThan(0);
      expect(further).toBeLessThan(keys.length / 2);
      process.stdout.write(
        `${JSON.stringify({ seed, keys: keys.length, deliveries: sent, kills: killed.size, knew: knew.size, further })}\n`,
      );

      async function finalAnswers(wanted: readonly string[]): Promise<Map<string, Answer>> {
        const found = new Map<string, Answer>();
        for (let round = 0; found.size < wanted.length; round++) {
          if (round === 20)
            throw new Error(`stuck (seed ${seed}): ${wanted.filter((k) => !found.has(k)).slice(0, 5)}`);
          const open = wanted.filter((key) => !found.has(key));
          for (let at = 0; at < open.length; at += 200) {
            const some = open.slice(at, at + 200);
            const ids = new Map(some.map((key) => [sent++, key]));
            for (const [id, key] of ids) [...children.values()][id % 2]!.child.send({ id, key });
            const giveUpAt = performance.now() + 60_000;
            while (ids.size > 0) {
              for (const answer of answers) {
                if (!ids.delete(answer.id)) continue;
                if (answer.code === undefined) found.set(answer.key, answer);
              }
              if (performance.now() > giveUpAt)
                throw new Error(`no answer (seed ${seed}): ${[...ids.values()].slice(0, 5)}`);
              await sleep(20);
            }
          }
        }
        return found;
      }
    },
    CHAOS_MS + 180_000,
  );
});
