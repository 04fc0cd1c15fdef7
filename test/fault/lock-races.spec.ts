import type { Redis } from 'ioredis';
import type { Backend, LockStore } from '../../lib/backend/backend.js';
import { redisBackend } from '../../lib/backend/redis/redis-backend.js';
import type { LockEvent } from '../../lib/lock/lock.js';
import { LockManager } from '../../lib/lock/lock-manager.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';

/** A backend, the renewals of which leave only when told: as behind a slow node of a Cluster. */
function withSlowRenewals(backend: Backend): { backend: Backend; waiting: () => number; letGo: () => void } {
  let waiting = 0;
  let letGo!: () => void;
  const told = new Promise<void>((resolve) => (letGo = resolve));
  const locks = Object.assign(Object.create(backend.locks) as LockStore, {
    extend: ((requests, timeoutMs) => {
      waiting += requests.length;
      return requests.map(async (request) => {
        await told;
        return backend.locks.extend([request], timeoutMs)[0]!;
      });
    }) satisfies LockStore['extend'],
  });
  const slow = Object.create(backend, { locks: { value: locks } }) as Backend;
  return { backend: slow, waiting: () => waiting, letGo };
}

describe('steps of a lock that overtake one another', () => {
  let server: RedisServer;
  let redis: Redis;
  let inner: Backend;

  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  afterAll(async () => server.stop());
  beforeEach(async () => {
    await redis.flushall();
    inner = redisBackend({ redis: server.url });
    await inner.start(5_000);
  });
  afterEach(async () => inner.close());

  it('a renewal that arrives behind the release is no loss', async () => {
    const { backend, waiting, letGo } = withSlowRenewals(inner);
    const locks = new LockManager({ backend });
    const events: LockEvent['type'][] = [];
    locks.events.subscribe(({ type }) => events.push(type));

    // the release has been carried out but not yet answered when the renewal comes back with "gone"
    backend.locks.release = async (...args) => {
      const answer = await inner.locks.release(...args);
      letGo();
      // the renewal goes out before this look, so it has been answered when the look is
      await inner.locks.inspect('k', 1_000);
      return answer;
    };
    const result = await locks.withLock(
      'k',
      async () => {
        await waitFor(() => waiting() > 0, { what: 'a renewal to be sent' });
        return 'done';
      },
      { ttl: 300 },
    );
    expect(result).toBe('done');
    expect(events).toEqual(['acquired', 'released']);
    await locks.drain(0);
  });

  it('a single try does not overtake those who wait, though the key is free', async () => {
    const locks = new LockManager({ backend: inner });
    let contended = 0;
    locks.events.subscribe(({ type }) => (contended += Number(type === 'contended')));
    for (let round = 1; round <= 5; round++) {
      // a foreign holder frees it without telling anybody: the one who waits looks a moment later
      await redis.set('k', 'foreign', 'PX', 60_000);
      contended = 0;
      const waiting = locks.acquire('k', { waitTimeout: '20s' });
      await waitFor(() => contended > 0, { what: 'the wait to find the key held' });
      await redis.del('k');
      expect(await locks.tryAcquire('k')).toBeNull();
      const lock = await waiting;
      expect(lock.held).toBe(true);
      await lock.release();
    }
    await locks.drain(0);
  });
});
