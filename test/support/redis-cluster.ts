import { once } from 'node:events';
import { Cluster, type ClusterOptions } from 'ioredis';
import { freeClusterPort } from './free-port.js';
import { RedisServer } from './redis-server.js';
import { waitFor } from './wait-for.js';

const SLOTS = 16_384;

/** A real Redis Cluster of three masters for a test. */
export class RedisCluster {
  private readonly clients = new Set<Cluster>();

  private constructor(readonly nodes: readonly RedisServer[]) {}

  static async start(): Promise<RedisCluster> {
    const nodes = await Promise.all(Array.from({ length: 3 }, () => startNode()));
    const admins = nodes.map((node) => node.client());
    for (const [index, admin] of admins.entries()) {
      const [first, end] = [index, index + 1].map((n) => Math.floor((n * SLOTS) / nodes.length)) as [
        number,
        number,
      ];
      await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1));
      const slots = Array.from({ length: end - first }, (_, offset) => String(first + offset));
      await admin.call('CLUSTER', 'ADDSLOTS', ...slots);
      if (index > 0) await admin.call('CLUSTER', 'MEET', '127.0.0.1', String(nodes[0]!.port));
    }
    await waitFor(
      async () => {
        const infos = await Promise.all(admins.map((admin) => admin.call('CLUSTER', 'INFO')));
        return infos.every(
          (info) => /cluster_state:ok/.test(String(info)) && /cluster_known_nodes:3/.test(String(info)),
        );
      },
      { timeoutMs: 20_000, everyMs: 50, what: 'the cluster to form' },
    );
    for (const admin of admins) admin.disconnect();
    return new RedisCluster(nodes);
  }

  /** A client of the cluster, disconnected when it stops. */
  client(options: ClusterOptions = {}): Cluster {
    const client = new Cluster(
      this.nodes.map(({ port }) => ({ host: '127.0.0.1', port })),
      options,
    );
    client.on('error', () => undefined);
    this.clients.add(client);
    return client;
  }

  async stop(): Promise<void> {
    // a client whose nodes die while it says goodbye keeps timers for seconds
    const ended = [...this.clients].map((client) =>
      client.status === 'end' || client.status === 'close' ? undefined : once(client, 'end'),
    );
    for (const client of this.clients) client.disconnect();
    await Promise.all(ended);
    await Promise.all(this.nodes.map((node) => node.stop()));
  }
}

async function startNode(): Promise<RedisServer> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await RedisServer.start({
        port: await freeClusterPort(),
        config: { 'cluster-enabled': 'yes', 'cluster-node-timeout': '5000' },
      });
    } catch (error) {
      if (attempt === 5) throw error;
    }
  }
}
