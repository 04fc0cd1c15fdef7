import { closeAllLocks, startLocks } from '../support/locks.js';
import { RedisCluster } from '../support/redis-cluster.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';

const CHANNELS = 'nestjs-redis-lock:inbox:*';
/** Behind it the last twelve characters count: so much of a token is its process's. */
const PROCESS_PART = 23;
/** No hand-off inside the process: every hold ends in Redis. */
const ALONE = { waitTimeout: '20s', handoff: false } as const;

describe('a process that gives way while others of it wait', () => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterEach(() => closeAllLocks());
  afterAll(() => server.stop());

  it('opens its inbox when somebody waits behind its own hold: it will stand in the queue next', async () => {
    const { locks } = await startLocks(server.url);
    const redis = server.client();
    const first = await locks.acquire('k');
    expect(await redis.call('PUBSUB', 'CHANNELS', CHANNELS)).toEqual([]);
    const second = locks.acquire('k');
    await waitFor(async () => ((await redis.call('PUBSUB', 'CHANNELS', CHANNELS)) as string[]).length === 1, {
      what: 'the inbox to listen',
    });
    await first.release();
    await (await second).release();
  });

  it('does not stand in the queue while it hears nothing: it would be skipped, or granted what it misses', async () => {
    const admin = server.client();
    await admin.call('ACL', 'SETUSER', 'deaf', 'on', '>pw', '~*', '+@all', 'resetchannels');
    const deaf = await startLocks(`redis://deaf:pw@127.0.0.1:${server.port}`);
    const other = await startLocks(server.url);

    const held = await deaf.locks.acquire('k', ALONE);
    const behind = deaf.locks.acquire('k', ALONE);
    const rival = other.locks.acquire('k', { waitTimeout: '20s' });
    await waitFor(async () => (await admin.zcard('{k}:queue')) === 1, { what: 'the other to queue' });
    await held.release();
    const granted = await rival;
    const queued = await admin.zrange('{k}:queue', '0', '-1');
    expect(queued.filter((token) => token.startsWith(held.token.slice(0, PROCESS_PART)))).toEqual([]);
    await granted.release();
    await (await behind).release();
  });

  it('is told of its next turn in a Cluster, where nobody is skipped for hearing nothing', async () => {
    const cluster = await RedisCluster.start();
    try {
      const [one, two] = await Promise.all([startLocks(cluster.client()), startLocks(cluster.client())]);
      const admin = cluster.client();
      const held = await one.locks.acquire('k', ALONE);
      const behind = one.locks.acquire('k', ALONE);
      const rival = two.locks.acquire('k', { waitTimeout: '20s' });
      await waitFor(async () => (await admin.zcard('{k}:queue')) === 1, { what: 'the other to queue' });
      const looks = one.count('contended');
      await held.release();
      await (await rival).release();
      await (await behind).release();
      expect(one.count('contended')).toBe(looks);
      const subscribers = await Promise.all(
        cluster.nodes.map(
          async (node) => (await node.client().call('PUBSUB', 'CHANNELS', CHANNELS)) as string[],
        ),
      );
      expect(subscribers.flat()).toHaveLength(2);
    } finally {
      await closeAllLocks();
      await cluster.stop();
    }
  });
});
