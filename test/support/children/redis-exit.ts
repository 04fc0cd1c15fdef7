import { redisBackend } from '../../../lib/backend/redis/redis-backend.js';

/** Opens a backend, closes it in some scene, and must then end by itself. */
const [url, scene] = process.argv.slice(2);
const backend = redisBackend({ redis: url! });
const lease = {
  key: `exit:${scene}`,
  token: `token:${scene}`,
  leaseMs: 600_000,
  ttlMs: 600_000,
  queue: false,
};

async function main(): Promise<void> {
  await backend.start(scene === 'down' ? 200 : 5_000).catch(() => undefined);
  if (scene === 'hold') await backend.locks.acquire(lease, 1_000);
  if (scene === 'clean-up') {
    void backend.locks.acquire(lease, 1).catch(() => undefined);
    void backend.locks.abandon(lease);
  }
  if (scene === 'inbox') await backend.locks.inbox.open(5_000);
  if (scene === 'silent') {
    await backend.locks.inbox.open(5_000);
    const told = new Promise((resolve) => process.once('message', resolve));
    process.send!({ type: 'started' });
    await told;
    await backend.locks.acquire(lease, 50).catch(() => undefined);
  }
  await backend.close();
  process.disconnect();
}

void main();
