import { Child } from '../support/child.js';
import { freePort } from '../support/free-port.js';
import { RedisCluster } from '../support/redis-cluster.js';
import { RedisServer } from '../support/redis-server.js';

/** What close() may take when the other end is gone or silent, with room for a slow machine. */
const CLOSED_WITHIN_MS = 8_000;

describe('L33: closing a backend when nothing else keeps the process alive', () => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());

  /** An exit code alone would say nothing: Node also ends with 0 when a promise can never settle. */
  async function closes(child: Child): Promise<void> {
    const { afterMs } = await child.next<{ afterMs: number }>({ type: 'closed' });
    expect(afterMs).toBeLessThan(CLOSED_WITHIN_MS);
    expect(await child.exited).toEqual({ code: 0, signal: null });
  }

  it.each([
    ['after a hold', 'hold'],
    ['with Redis down', 'down'],
    ['before it was started', 'unopened'],
    ['while it is about to connect', 'connecting'],
    ['twice at once', 'twice'],
    ['with a clean-up still to do', 'clean-up'],
    ['with its inbox open', 'inbox'],
    ['while its inbox opens', 'inbox-opening'],
    ['in a database that it may not use', 'refused'],
  ])('settles, and the process ends: %s', async (_, scene) => {
    const port = scene === 'down' ? await freePort() : server.port;
    const url = `redis://127.0.0.1:${port}${scene === 'refused' ? '/99' : ''}`;
    await closes(Child.start('redis-exit.ts', { args: [scene, url] }));
  });

  it.each([
    ['has stopped answering', 'silent', (redis: RedisServer) => redis.pause()],
    ['was killed', 'silent', (redis: RedisServer) => redis.kill()],
  ])('settles, and the process ends: a server that %s', async (_, scene, fault) => {
    const own = await RedisServer.start();
    try {
      const child = Child.start('redis-exit.ts', { args: [scene, own.url] });
      await child.next({ type: 'started' });
      await fault(own);
      child.send({ type: 'close' });
      await closes(child);
    } finally {
      own.resume();
      await own.stop();
    }
  });

  it.each([
    ['is there', undefined],
    ['lost all its nodes', (cluster: RedisCluster) => Promise.all(cluster.nodes.map((node) => node.kill()))],
    ['lost one node', (cluster: RedisCluster) => cluster.nodes[1]!.kill()],
    ['has stopped answering', (cluster: RedisCluster) => cluster.nodes.forEach((node) => node.pause())],
  ])('settles, and the process ends: a Cluster that %s', async (_, fault) => {
    const cluster = await RedisCluster.start();
    try {
      const urls = cluster.nodes.map(({ url }) => url);
      const child = Child.start('redis-exit.ts', { args: ['cluster', ...urls] });
      await child.next({ type: 'started' });
      await fault?.(cluster);
      child.send({ type: 'close' });
      await closes(child);
    } finally {
      for (const node of cluster.nodes) node.resume();
      await cluster.stop();
    }
  });

  it.each([
    ['never there', 'cluster-down'],
    ['never asked for', 'unopened'],
  ])('settles, and the process ends: a Cluster that was %s', async (_, scene) => {
    const urls = [await freePort(), await freePort()].map((port) => `redis://127.0.0.1:${port}`);
    await closes(Child.start('redis-exit.ts', { args: [scene, ...urls] }));
  });
});
