import { once } from 'node:events';
import { Cluster } from 'ioredis';
import { redisBackend } from '../../../lib/backend/redis/redis-backend.js';

/** Opens a backend, closes it in some scene, says so, and must then end by itself. */
const [scene, ...urls] = process.argv.slice(2);
const application =
  urls.length > 1
    ? new Cluster(urls, { lazyConnect: scene === 'unopened', clusterRetryStrategy: () => 100 })
    : undefined;
application?.on('error', () => undefined);
const backend = redisBackend({ redis: application ?? urls[0]! });
const lease = {
  key: `exit:${scene}`,
  token: `token:${scene}`,
  leaseMs: 600_000,
  ttlMs: 600_000,
  queue: false,
};

async function play(): Promise<void> {
  if (scene === 'unopened') return;
  if (scene === 'connecting') return void backend.start(5_000).catch(() => undefined);
  await backend.start(/down$|^refused$/.test(scene!) ? 200 : 5_000).catch(() => undefined);
  if (scene === 'hold') await backend.locks.acquire(lease, 1_000);
  if (scene === 'twice') void backend.close();
  if (scene === 'clean-up') {
    void backend.locks.acquire(lease, 1).catch(() => undefined);
    void backend.locks.abandon(lease);
  }
  if (scene === 'inbox') await backend.locks.inbox.open(5_000);
  if (scene === 'inbox-opening') void backend.locks.inbox.open(5_000);
  if (scene === 'silent' || scene === 'cluster') {
    await backend.locks.inbox.open(5_000);
    process.send!({ type: 'started' });
    await once(process, 'message');
    await backend.locks.acquire(lease, 50).catch(() => undefined);
  }
}

async function main(): Promise<void> {
  await play();
  // from here on only the closing itself can keep the process alive; the channel still carries what it says
  process.channel!.unref();
  application?.disconnect();
  const startedAt = performance.now();
  await backend.close();
  process.send!({ type: 'closed', afterMs: performance.now() - startedAt });
  process.disconnect();
}

void main();
