import { redisBackend } from '../../../lib/backend/redis/redis-backend.js';
import { LockManager } from '../../../lib/lock/lock-manager.js';

/** Closes while nothing else keeps the process alive, and says that it got behind that. */
async function main(): Promise<void> {
  const backend = redisBackend({ redis: process.argv[2]! });
  await backend.start(Number(process.argv[3])).catch(() => undefined);
  const locks = new LockManager({ backend });
  process.once('message', () => {
    process.disconnect();
    void locks
      .drain(100)
      .then(() => backend.close())
      .then(() => process.stdout.write('after close\n'));
  });
  process.send?.({ ready: true });
}

void main();
