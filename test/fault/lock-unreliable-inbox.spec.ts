import type { Redis } from 'ioredis';
import { seededRandom } from '../support/random.js';
import { RedisServer } from '../support/redis-server.js';
import { sleep } from '../support/scene.js';
import { SectionWorkers } from '../support/section-workers.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';

const PROCESSES = 3;
/** A lease that was passed on, a look, and a slow machine. */
const LONGEST_WAIT_MS = 10_000;

interface Stage {
  server: RedisServer;
  redis: Redis;
  proxies: readonly TcpProxy[];
  random: () => number;
}

/** Makes trouble for so long. */
type Fault = (stage: Stage, until: number) => Promise<void>;

const again =
  (everyMs: number, act: (stage: Stage) => unknown): Fault =>
  async (stage, until) => {
    while (performance.now() < until) {
      await act(stage);
      await sleep(everyMs);
    }
  };

const FAULTS: Array<[string, number, Fault]> = [
  ['nothing fails', 2_000, again(100, () => undefined)],
  [
    '30 % of the messages are lost',
    5_000,
    async ({ proxies }, until) => {
      proxies.forEach((proxy, n) => proxy.only('messages').lose(0.3, n + 1));
      await sleep(until - performance.now());
    },
  ],
  [
    'all messages are lost',
    4_000,
    async ({ proxies }, until) => {
      for (const proxy of proxies) proxy.only('messages').swallow('down');
      await sleep(until - performance.now());
    },
  ],
  [
    'every subscriber connection flaps every 50 ms',
    10_000,
    again(50, ({ redis }) => redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub')),
  ],
  [
    'one subscriber connection after another is cut and closed',
    5_000,
    again(50, ({ proxies, random }) =>
      proxies[Math.floor(random() * PROCESSES)]!.only('messages').closeConnections(),
    ),
  ],
  ['SCRIPT FLUSH comes again and again', 3_000, again(10, ({ redis }) => redis.script('FLUSH'))],
  [
    'the command connections are killed again and again',
    5_000,
    again(150, ({ proxies, random }) =>
      proxies[Math.floor(random() * PROCESSES)]!.only('commands').closeConnections(),
    ),
  ],
];

describe(`${PROCESSES} processes at one lock`, () => {
  let server: RedisServer;
  let ledger: RedisServer;
  let proxies: TcpProxy[];
  let workers: SectionWorkers | undefined;

  beforeEach(async () => {
    [server, ledger] = await Promise.all([RedisServer.start(), RedisServer.start()]);
    proxies = await Promise.all(Array.from({ length: PROCESSES }, () => TcpProxy.start(server.port)));
  });
  afterEach(async () => {
    await workers?.kill();
    workers = undefined;
    await Promise.all(proxies.map((proxy) => proxy.stop()));
    await Promise.all([server.stop(), ledger.stop()]);
  });

  const urls = (): string[] => proxies.map(({ url }) => url);

  /** Everybody served, nothing overlapped, no token went back, and nothing is left. */
  async function judge(most = LONGEST_WAIT_MS): Promise<void> {
    for (const proxy of proxies) proxy.calm();
    const reports = await workers!.finish();
    expect(await workers!.faults()).toEqual({ overlaps: [], refused: [] });
    for (const { turns, failures, longestWaitMs } of reports) {
      expect(Math.min(...turns)).toBeGreaterThan(0);
      expect(failures).toEqual({});
      expect(longestWaitMs).toBeLessThan(most);
    }
    const redis = server.client();
    await waitFor(async () => (await redis.exists('k', '{k}:queue')) === 0, { what: 'the key to go' });
  }

  describe.each([[true], [false]])('with handoff: %p', (handoff) => {
    it.each(FAULTS)(
      'everybody is served, one after the other, on rising tokens, while %s',
      async (_, ms, fault) => {
        // a lease that a fault could end would hide what is looked for here
        workers = await SectionWorkers.start(urls(), ledger, { handoff, ttl: 10_000 });
        const stage = { server, redis: server.client(), proxies, random: seededRandom(7) };
        await fault(stage, performance.now() + (handoff ? ms : ms * 0.4));
        await judge();
      },
      120_000,
    );
  });

  it('a channel ACL forbids the inbox of all, or of one: they look instead, and all are served', async () => {
    const admin = server.client();
    await admin.acl('SETUSER', 'deaf', 'on', '>pw', '~*', '+@all', 'resetchannels');
    const deafUrl = `redis://deaf:pw@127.0.0.1:${server.port}`;
    workers = await SectionWorkers.start([deafUrl, deafUrl, deafUrl], ledger, { ttl: 10_000 });
    await waitFor(async () => (await workers!.sections()) > 100, { what: 'sections', timeoutMs: 30_000 });
    await judge();
    await workers.kill();

    // whoever cannot be woken may starve beside those who can, but has its turn when they rest
    await ledger.client().flushall();
    workers = await SectionWorkers.start([deafUrl, proxies[1]!.url], ledger, { ttl: 10_000, holdMs: 5 });
    await waitFor(async () => (await workers!.sections()) > 100, { what: 'sections', timeoutMs: 30_000 });
    await judge(40_000);
  }, 120_000);

  it('Redis restarts, empty, in the middle: who held it knows, tokens rise, everybody is served', async () => {
    workers = await SectionWorkers.start(urls(), ledger, { ttl: 1_000, holdMs: 5 });
    for (let round = 1; round <= 3; round++) {
      const before = await workers.sections();
      await waitFor(async () => (await workers!.sections()) > before + 20, {
        what: 'sections',
        timeoutMs: 30_000,
      });
      await server.restart();
    }
    const reports = await workers.finish();
    const { refused, overlaps } = await workers.faults();
    // a restart takes the key away from its holder by force: one section each may still have run
    expect(overlaps.length).toBeLessThanOrEqual(3);
    // the clock of the server goes on, so no new token is below an old one
    expect(refused).toEqual([]);
    for (const { turns, failures } of reports) {
      expect(Math.min(...turns)).toBeGreaterThan(0);
      expect(Object.keys(failures).filter((code) => code !== 'LOCK_LOST')).toEqual([]);
    }
  }, 120_000);
});
