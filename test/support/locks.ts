import { redisBackend, type RedisSource } from '../../lib/backend/redis/redis-backend.js';
import type { LockEvent, LockOptions } from '../../lib/lock/lock.js';
import { LockManager } from '../../lib/lock/lock-manager.js';
import { resolveLockOptions } from '../../lib/lock/lock-options.js';

/** A lock manager over a real Redis, as one process has it, and what it said. */
export interface TestLocks {
  locks: LockManager;
  events: LockEvent[];
  /** How many events of this type there were. */
  count(type: LockEvent['type']): number;
  close(): Promise<void>;
}

const open = new Set<TestLocks>();

export async function startLocks(
  redis: RedisSource,
  options: { defaults?: LockOptions; keyPrefix?: string; startWithinMs?: number } = {},
): Promise<TestLocks> {
  const backend = redisBackend({ redis });
  const start = backend.start(options.startWithinMs ?? 5_000);
  if (options.startWithinMs === undefined) await start;
  else await start.catch(() => undefined);
  const locks = new LockManager({
    backend,
    keyPrefix: options.keyPrefix ?? '',
    defaults: resolveLockOptions(options.defaults),
  });
  const events: LockEvent[] = [];
  locks.events.subscribe((event) => events.push(event));
  const started: TestLocks = {
    locks,
    events,
    count: (type) => events.filter((event) => event.type === type).length,
    async close() {
      open.delete(started);
      await locks.drain(0);
      await backend.close();
    },
  };
  open.add(started);
  return started;
}

/** Closes whatever a test left open. */
export async function closeAllLocks(): Promise<void> {
  await Promise.all([...open].map((each) => each.close()));
}
