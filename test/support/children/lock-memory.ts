import { setFlagsFromString, queryObjects } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { redisBackend } from '../../../lib/backend/redis/redis-backend.js';
import { Hold } from '../../../lib/lock/hold.js';
import { KeyLine } from '../../../lib/lock/key-line.js';
import { Lease } from '../../../lib/lock/lease.js';
import { LocalQueue } from '../../../lib/lock/local-queue.js';
import { LockHandle } from '../../../lib/lock/lock-handle.js';
import { LockManager } from '../../../lib/lock/lock-manager.js';
import { TurnQueue } from '../../../lib/lock/turn-queue.js';
import { Waiter } from '../../../lib/lock/waiter.js';

/** Uses locks as the scene says, and reports what is left of it in this process. */
const [scene, url, count] = process.argv.slice(2);
const size = Number(count);
const KINDS = { KeyLine, LocalQueue, Waiter, Lease, Hold, LockHandle, TurnQueue };

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** The heap in bytes, and how many of the module's own objects are alive. */
async function takeStock(): Promise<{ heap: number; timers: number; alive: Record<string, number> }> {
  for (let n = 0; n < 3; n++) {
    // callbacks that are still to run keep what they will look at
    await new Promise((resolve) => setTimeout(resolve, 50));
    collect();
  }
  const alive = Object.fromEntries(
    Object.entries(KINDS).map(([name, kind]) => [name, queryObjects(kind, { format: 'count' })]),
  );
  const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  return { heap: process.memoryUsage().heapUsed, timers, alive };
}

async function inGroups(of: number, run: (n: number) => Promise<unknown>): Promise<void> {
  for (let first = 0; first < size; first += of) {
    await Promise.all(Array.from({ length: Math.min(of, size - first) }, (_, n) => run(first + n)));
  }
}

async function main(): Promise<void> {
  const backend = redisBackend({ redis: url!, fenceLifeMs: 1_000 });
  await backend.start(10_000);
  const locks = new LockManager({ backend });
  const scenes: Record<string, () => Promise<void>> = {
    'each key once': () =>
      inGroups(200, (n) => locks.withLock(`once:${n}`, () => undefined, { ttl: 2_000, waitTimeout: '60s' })),
    'each key nested': () =>
      inGroups(200, (n) =>
        locks.withLock(`nested:${n}`, () => locks.withLock(`nested:${n}`, () => undefined), {
          ttl: 2_000,
          waitTimeout: '60s',
        }),
      ),
    'each key contended': () =>
      inGroups(200, (n) => {
        const take = (): Promise<void> =>
          locks.withLock(`busy:${n}`, () => undefined, { ttl: 2_000, waitTimeout: '60s' });
        return Promise.all([take(), take(), take()]);
      }),
    'waiters time out': async () => {
      const held = await locks.acquire('k', { waitTimeout: '60s' });
      const waits = Array.from({ length: size }, (_, n) =>
        locks.acquire('k', { waitTimeout: 500 + (n % 100) }).then(
          () => 'held',
          (error: { code: string }) => error.code,
        ),
      );
      const ends = new Set(await Promise.all(waits));
      if (ends.size !== 1 || !ends.has('LOCK_TIMEOUT')) throw new Error([...ends].join());
      await held.release();
    },
    'waiters behind a foreign holder time out': async () => {
      const foreign = `foreign:${process.pid}`;
      process.send!({ type: 'hold', key: foreign });
      await new Promise((resolve) => process.once('message', resolve));
      await Promise.all(
        Array.from({ length: size }, () =>
          locks.acquire(foreign, { waitTimeout: 700 }).catch(() => undefined),
        ),
      );
    },
  };
  // what the first use makes stays: connections, scripts, compiled code
  await locks.withLock('warm', () => locks.withLock('warm', () => undefined));
  await Promise.all([locks, locks].map((each) => each.withLock('warm', () => undefined)));
  const before = await takeStock();
  await scenes[scene!]!();
  // a line's last look at its holder may be up to a second away
  let after = await takeStock();
  const giveUpAt = Date.now() + 10_000;
  while (Object.values(after.alive).some(Boolean) && Date.now() < giveUpAt) after = await takeStock();
  process.send!({ type: 'stock', before, after });
  await new Promise((resolve) => process.once('message', resolve));
  await locks.drain(0);
  await backend.close();
  process.disconnect();
}

void main();
