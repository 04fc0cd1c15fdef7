import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import type { Lock } from '../../../lib/lock/lock.js';
import { startLocks } from '../locks.js';

/**
 * A process whose tasks take one lock again and again, and tell a ledger (another Redis) when a section begins and
 * ends, and until when its lock was valid then. The ledger refuses a fencing token that is not above the last one, as
 * a guarded resource would. All clocks are those of one machine, so its times can be compared with the ledger's.
 */
const ENTER = `
local last = tonumber(redis.call('GET', 'last') or 0)
if tonumber(ARGV[1]) <= last then return 0 end
redis.call('SET', 'last', ARGV[1])
local inside = redis.call('GET', 'inside')
if inside then
  local time = redis.call('TIME')
  redis.call('RPUSH', 'overlaps', cjson.encode({ inside = inside, by = ARGV[2], at = time[1] * 1000 + time[2] / 1000 }))
end
redis.call('SET', 'inside', ARGV[2])
redis.call('HSET', 'entered', ARGV[2], ARGV[3])
redis.call('INCR', 'sections')
return 1
`;
const EXIT = `
if redis.call('GET', 'inside') == ARGV[1] then redis.call('DEL', 'inside') end
redis.call('HSET', 'exited', ARGV[1], ARGV[2])
`;

const [, , lockUrl, ledgerUrl, name] = process.argv;

async function main(): Promise<void> {
  const { locks } = await startLocks(lockUrl!, { startWithinMs: 2_000 });
  const ledger = new Redis(ledgerUrl!);
  const calm = new AbortController();
  const timeouts: string[] = [];
  process.on('message', () => calm.abort());

  // the clock is read first: a process stopped in between then claims less, never more; 0: it knows that it ended
  const validUntil = (lock: Lock): number => {
    const now = Date.now();
    const { remainingMs } = lock;
    return remainingMs > 0 ? now + remainingMs : 0;
  };

  const section = async (): Promise<boolean> => {
    const id = randomUUID();
    try {
      await locks.withLock(
        'k',
        async (lock) => {
          const entered = await ledger.eval(ENTER, 0, String(lock.fencingToken), id, validUntil(lock));
          if (entered === 0) {
            // a later holder was there: this one's lease must have ended, and it must know
            if (lock.held) await ledger.rpush('violations', `refused while held: ${id}`);
            return;
          }
          await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
          await ledger.eval(EXIT, 0, id, validUntil(lock));
        },
        { ttl: 1_500, waitTimeout: '25s', onLost: 'report' },
      );
      return true;
    } catch (error) {
      const { code } = error as { code?: string };
      if (code === 'LOCK_TIMEOUT') timeouts.push(id);
      return false;
    }
  };
  process.send?.({ ready: name });
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!calm.signal.aborted) await section();
      // everything is calm again: whoever still waits must be served
      while (!(await section()));
    }),
  );
  process.send?.({ done: name, timeouts: timeouts.length });
  ledger.disconnect();
}

void main();
