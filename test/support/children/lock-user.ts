import type { Lock } from '../../../lib/lock/lock.js';
import { startLocks } from '../locks.js';

/** A process of its own that acquires, checks and releases as it is told. */
interface Order {
  acquire?: string;
  release?: string;
  check?: string;
  ttl?: number;
  waitTimeout?: number;
}

const tell = (message: object): void => void process.send?.(message);

async function main(): Promise<void> {
  const { locks } = await startLocks(process.argv[2]!);
  const held = new Map<string, Lock>();
  process.on('message', (order: Order) => {
    void obey(order).catch((error: { code?: string }) => tell({ failed: error.code ?? String(error) }));
  });

  async function obey({ acquire, release, check, ttl, waitTimeout }: Order): Promise<void> {
    if (acquire) {
      const lock = await locks.acquire(acquire, {
        ...(ttl ? { ttl } : {}),
        ...(waitTimeout ? { waitTimeout } : {}),
      });
      held.set(acquire, lock);
      tell({ acquired: acquire, fencingToken: lock.fencingToken });
    }
    if (check) tell({ checked: check, held: held.get(check)?.held ?? false });
    if (release) tell({ released: release, answer: await held.get(release)?.release() });
  }
}

void main();
