import { Redis } from 'ioredis';
import { startLocks } from '../locks.js';
import { seededRandom } from '../random.js';

/**
 * A process whose tasks take locks again and again until told to stop, and tell a ledger (another Redis), as a
 * guarded resource would: it refuses a fencing token that is not above the last one of the key, and notes who was
 * inside when the next one came.
 *
 * Arguments: Redis of the locks, ledger, and {@link Work} as JSON.
 */
export interface Work {
  name: string;
  tasks: number;
  /** Each section takes so many of them, at random. */
  keys: readonly string[];
  mostKeys: number;
  ttl: number;
  holdMs: number;
  handoff: boolean;
  seed: number;
}

/** What it reports when it was told to stop and every task has had its last turn. */
export interface Report {
  done: string;
  /** Of each task. */
  turns: number[];
  /** From the call to the turn, in milliseconds. */
  longestWaitMs: number;
  /** By the code of the error. */
  failures: Record<string, number>;
}

const ENTER = `
for n = 1, #KEYS do
  if tonumber(ARGV[1]) <= tonumber(redis.call('HGET', 'last', KEYS[n]) or 0) then
    redis.call('RPUSH', 'refused', KEYS[n])
    return 0
  end
end
for n = 1, #KEYS do
  redis.call('HSET', 'last', KEYS[n], ARGV[1])
  local inside = redis.call('HGET', 'inside', KEYS[n])
  if inside then redis.call('RPUSH', 'overlaps', KEYS[n] .. ' ' .. inside .. ' ' .. ARGV[2]) end
  redis.call('HSET', 'inside', KEYS[n], ARGV[2])
end
return redis.call('INCR', 'sections')
`;
const EXIT = `
for n = 1, #KEYS do
  if redis.call('HGET', 'inside', KEYS[n]) == ARGV[1] then redis.call('HDEL', 'inside', KEYS[n]) end
end
`;

const [lockUrl, ledgerUrl, json] = process.argv.slice(2);
const work = JSON.parse(json!) as Work;

async function main(): Promise<void> {
  const { locks } = await startLocks(lockUrl!, { startWithinMs: 5_000 });
  const ledger = new Redis(ledgerUrl!);
  const random = seededRandom(work.seed);
  const turns = Array.from({ length: work.tasks }, () => 0);
  const failures: Record<string, number> = {};
  let longestWaitMs = 0;
  const stop = new AbortController();
  process.once('message', () => stop.abort());

  const some = (): string[] => {
    const count = 1 + Math.floor(random() * work.mostKeys);
    return Array.from({ length: count }, () => work.keys[Math.floor(random() * work.keys.length)]!);
  };

  async function section(task: number): Promise<boolean> {
    const askedAt = performance.now();
    const id = `${work.name}:${task}:${turns[task]}`;
    try {
      return await locks.withLock(
        some(),
        async (lock) => {
          longestWaitMs = Math.max(longestWaitMs, performance.now() - askedAt);
          const { keys } = lock;
          if ((await ledger.eval(ENTER, keys.length, ...keys, lock.fencingToken, id)) === 0) return false;
          await new Promise((resolve) => setTimeout(resolve, random() * work.holdMs));
          await ledger.eval(EXIT, keys.length, ...keys, id);
          turns[task]!++;
          return true;
        },
        { ttl: work.ttl, waitTimeout: '40s', handoff: work.handoff },
      );
    } catch (error) {
      const code = (error as { code?: string }).code ?? String(error);
      failures[code] = (failures[code] ?? 0) + 1;
      return false;
    }
  }

  process.send!({ ready: work.name });
  await Promise.all(
    turns.map(async (_, task) => {
      while (!stop.signal.aborted) await section(task);
      // all is calm again: whoever still wants its turn must get it
      while (!(await section(task)));
    }),
  );
  process.send!({ done: work.name, turns, longestWaitMs, failures } satisfies Report);
  ledger.disconnect();
}

void main();
