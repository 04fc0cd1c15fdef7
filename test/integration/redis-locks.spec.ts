import type { Redis } from 'ioredis';
import { FENCE_BLOCK, type Backend } from '../../lib/backend/backend.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { closeBackends, lease, startBackend, storeError, TIMEOUT_MS } from './redis-fixture.js';

describe('locks in Redis', () => {
  let server: RedisServer;
  let redis: Redis;
  let backend: Backend;

  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  beforeEach(async () => {
    await redis.flushall();
    backend = await startBackend({ redis: server.url });
  });
  afterEach(closeBackends);
  afterAll(() => server.stop());

  const granted = async (request: ReturnType<typeof lease>): Promise<number> => {
    const reply = await backend.locks.acquire(request, TIMEOUT_MS);
    if (reply.status !== 'granted') throw new Error(`busy: ${JSON.stringify(reply)}`);
    return reply.fencingToken;
  };
  const extend = (request: ReturnType<typeof lease>) => backend.locks.extend([request], TIMEOUT_MS)[0]!;
  const release = (request: ReturnType<typeof lease>) =>
    backend.locks.release({ ...request, keepMs: 0 }, TIMEOUT_MS);

  it('writes what `SET key token NX PX ttl` writes, and excludes it', async () => {
    const mine = lease('lock:order:1', 5_000);
    await granted(mine);
    expect(await redis.get('lock:order:1')).toBe(mine.token);
    expect(await redis.pttl('lock:order:1')).toBeGreaterThan(4_000);
    expect(await redis.set('lock:order:1', 'foreign', 'PX', 100, 'NX')).toBeNull();
    await release(mine);
    expect(await redis.set('lock:order:1', 'foreign', 'PX', 5_000, 'NX')).toBe('OK');
    expect(await backend.locks.acquire(lease('lock:order:1'), TIMEOUT_MS)).toEqual({
      status: 'busy',
      key: 'lock:order:1',
      remainingMs: expect.any(Number),
      time: expect.any(Number),
    });
  });

  it('tells -1 of a foreign holder without expiry', async () => {
    await redis.set('k', 'foreign');
    expect(await backend.locks.acquire(lease('k'), TIMEOUT_MS)).toEqual({
      status: 'busy',
      key: 'k',
      remainingMs: -1,
      time: expect.any(Number),
    });
  });

  it('a resend raises the life, never lowers it, and gets a new fencing token', async () => {
    const mine = lease('k', 60_000);
    const first = await granted(mine);
    const second = await granted({ ...mine, leaseMs: 1_000 });
    expect(second).toBeGreaterThan(first);
    expect(await redis.pttl('k')).toBeGreaterThan(50_000);
    await granted({ ...mine, leaseMs: 120_000 });
    expect(await redis.pttl('k')).toBeGreaterThan(100_000);
  });

  it('L14: an extension never shortens the life', async () => {
    const mine = lease('k', 60_000);
    await granted(mine);
    expect(await extend({ ...mine, leaseMs: 100 })).toBe('extended');
    expect(await redis.pttl('k')).toBeGreaterThan(50_000);
  });

  it('L16: releasing a lock that expired answers gone', async () => {
    const mine = lease('k', 1);
    await granted(mine);
    await waitFor(async () => (await redis.exists('k')) === 0);
    expect(await release(mine)).toBe('gone');
  });

  it('L20: an extension never creates a key that was deleted', async () => {
    const mine = lease('k');
    await granted(mine);
    await redis.del('k');
    expect(await extend(mine)).toBe('gone');
    expect(await redis.exists('k')).toBe(0);
  });

  it('L22: a late release or extension leaves the next holder and its life alone', async () => {
    const [late, next] = [lease('k'), lease('k', 20_000)];
    await granted(late);
    await redis.del('k');
    await granted(next);
    expect(await release(late)).toBe('foreign');
    expect(await backend.locks.release({ ...late, keepMs: 500 }, TIMEOUT_MS)).toBe('foreign');
    expect(await extend({ ...late, leaseMs: 90_000 })).toBe('foreign');
    expect(await redis.get('k')).toBe(next.token);
    const left = await redis.pttl('k');
    expect(left).toBeGreaterThan(15_000);
    expect(left).toBeLessThanOrEqual(20_000);
  });

  it('keepMs leaves the key that much longer, then it goes', async () => {
    const mine = lease('k');
    await granted(mine);
    expect(await backend.locks.release({ ...mine, keepMs: 1_500.5 }, TIMEOUT_MS)).toBe('released');
    expect(await redis.pttl('k')).toBeLessThanOrEqual(1_501);
    expect(await redis.get('k')).toBe(mine.token);
  });

  it('L21: SCRIPT FLUSH between any two calls goes unnoticed', async () => {
    const mine = lease('k');
    const other = lease('m');
    const calls: Array<() => Promise<unknown>> = [
      () => granted(mine),
      () => extend(mine),
      () => backend.locks.inspect('k', TIMEOUT_MS),
      () => backend.locks.raiseFence([{ key: 'k', fencingToken: 1, ttlMs: 1_000 }], TIMEOUT_MS),
      () => release(mine),
      () => backend.locks.acquireAll([mine, other], TIMEOUT_MS),
      () => backend.locks.forceRelease('k', TIMEOUT_MS),
      () => backend.locks.abandon(other),
      () => granted(mine),
      () => backend.locks.release({ ...mine, keepMs: 60_000 }, TIMEOUT_MS),
      () => backend.locks.giveWay({ ...mine, next: other.token }, TIMEOUT_MS),
      () => release({ ...mine, token: other.token }),
    ];
    for (const call of calls) {
      await redis.script('FLUSH');
      await call();
    }
    expect(await redis.exists('k', 'm')).toBe(0);
  });

  it('L29: another type of value under the key is told at once, with its name, and stays as it is', async () => {
    await redis.hset('lock:app', 'field', 'value');
    for (const call of [
      () => backend.locks.acquire(lease('lock:app'), TIMEOUT_MS),
      () => backend.locks.acquireAll([lease('free'), lease('lock:app')], TIMEOUT_MS),
      () => backend.locks.inspect('lock:app', TIMEOUT_MS),
      () => backend.locks.forceRelease('lock:app', TIMEOUT_MS),
    ]) {
      const error = await storeError(call());
      expect(error).toMatchObject({ outcome: 'notApplied', retryable: false });
      expect(error.message).toContain('WRONGTYPE');
      expect(error.message).toContain('"lock:app"');
    }
    expect(await extend(lease('lock:app'))).toBe('foreign');
    expect(await release(lease('lock:app'))).toBe('foreign');
    expect(await redis.hgetall('lock:app')).toEqual({ field: 'value' });
    expect(await redis.exists('free')).toBe(0);
  });

  it('a fence that cannot be kept leaves no lock behind', async () => {
    await redis.hset('{k}:fence', 'field', 'value');
    const error = await storeError(backend.locks.acquire(lease('k'), TIMEOUT_MS));
    expect(error.message).toContain('WRONGTYPE');
    expect(await redis.exists('k')).toBe(0);
  });

  it('L38: after a restart that empties Redis, the next fencing token is still larger', async () => {
    const own = await RedisServer.start();
    try {
      const other = await startBackend({ redis: own.url });
      const before = await other.locks.acquire(lease('k'), TIMEOUT_MS);
      await own.restart();
      await other.whenReady(10_000);
      const after = await other.locks.acquire(lease('k'), TIMEOUT_MS);
      if (before.status !== 'granted' || after.status !== 'granted') throw new Error('busy');
      expect(after.fencingToken).toBeGreaterThan(before.fencingToken);
    } finally {
      await own.stop();
    }
  });

  it('fencing tokens rise although the server clock is behind the counter', async () => {
    const ahead = (Date.now() + 3_600_000) * 1_000;
    await redis.set('{k}:fence', String(ahead));
    const mine = lease('k');
    expect(await granted(mine)).toBe(ahead + 1);
    await release(mine);
    // each lease has a block of its own
    expect(await granted(mine)).toBe(ahead + 1 + FENCE_BLOCK);
    await release(mine);
    const raised = ahead + 10 * FENCE_BLOCK;
    await backend.locks.raiseFence([{ key: 'k', fencingToken: raised, ttlMs: 1_000 }], TIMEOUT_MS);
    await backend.locks.raiseFence([{ key: 'k', fencingToken: 3, ttlMs: 1_000 }], TIMEOUT_MS);
    expect(await granted(mine)).toBe(raised + FENCE_BLOCK);
    expect(await redis.get('{k}:fence')).toBe(String(raised + 2 * FENCE_BLOCK - 1));
  });

  it('L41: out of memory, an acquire fails with its cause; the held lock is extended and released', async () => {
    const mine = lease('held');
    await granted(mine);
    await redis.config('SET', 'maxmemory', '1');
    try {
      const error = await storeError(backend.locks.acquire(lease('other'), TIMEOUT_MS));
      expect(error).toMatchObject({ outcome: 'notApplied', retryable: false });
      expect((error.cause as Error).message).toContain('OOM');
      expect(await extend(mine)).toBe('extended');
      expect(await release(mine)).toBe('released');
    } finally {
      await redis.config('SET', 'maxmemory', '0');
    }
    expect(await redis.exists('other')).toBe(0);
  });

  it('L49: the companions of keys locked once go by themselves', async () => {
    const shortLived = await startBackend({ redis: server.url, fenceLifeMs: 300 });
    const size = await redis.dbsize();
    await Promise.all(
      Array.from({ length: 2_000 }, async (_, at) => {
        const mine = lease(`once:${at}`, 20);
        await shortLived.locks.acquire(mine, 10_000);
        await shortLived.locks.release({ ...mine, keepMs: 0 }, 10_000);
      }),
    );
    await waitFor(
      async () => {
        // expired keys are counted until something looks at them
        for (let cursor = '0', first = true; first || cursor !== '0'; first = false) {
          [cursor] = await redis.scan(cursor, 'COUNT', 1_000);
        }
        return (await redis.dbsize()) <= size;
      },
      { what: 'the companions to go' },
    );
  });

  it('a fence lives ten times the ttl, at least ten minutes, and a renewal refreshes it', async () => {
    const [short, long] = [lease('short', 1_000), lease('long', 600_000)];
    await granted(short);
    await granted(long);
    expect(await redis.pttl('{short}:fence')).toBeGreaterThan(590_000);
    expect(await redis.pttl('{long}:fence')).toBeGreaterThan(5_900_000);
    await redis.pexpire('{short}:fence', 5_000);
    await extend(short);
    expect(await redis.pttl('{short}:fence')).toBeGreaterThan(590_000);
  });

  it('lists held locks only, once each, of the prefix and the pattern', async () => {
    const listing = await startBackend({ redis: server.client({ keyPrefix: 'app*:' }) });
    for (const key of ['m:a:1', 'm:a:2', 'm:{a}:3', 'm:b:1', 'x:a:1']) {
      await listing.locks.acquire(lease(key), TIMEOUT_MS);
    }
    const gone = lease('m:a:gone');
    await listing.locks.acquire(gone, TIMEOUT_MS);
    await listing.locks.release({ ...gone, keepMs: 0 }, TIMEOUT_MS);
    const list = async (prefix: string, pattern: string): Promise<string[]> => {
      const keys: string[] = [];
      for await (const { key } of listing.locks.list(prefix, pattern, TIMEOUT_MS)) keys.push(key);
      return keys.sort();
    };
    expect(await list('m:', '*')).toEqual(['m:a:1', 'm:a:2', 'm:b:1', 'm:{a}:3']);
    expect(await list('m:', 'a:?')).toEqual(['m:a:1', 'm:a:2']);
    expect(await list('', '*:[12]')).toEqual(['m:a:1', 'm:a:2', 'm:b:1', 'x:a:1']);
    expect(await list('m:', 'a')).toEqual([]);
  });

  it('takes at most 64 keys in one step, and extends any number', async () => {
    const many = Array.from({ length: 250 }, (_, at) => lease(`many:${at}`));
    const keys = many.map(({ key }) => key);
    expect(backend.locks.canAcquireTogether(keys.slice(0, 64))).toBe(true);
    expect(backend.locks.canAcquireTogether(keys.slice(0, 65))).toBe(false);
    await storeError(backend.locks.acquireAll(many, TIMEOUT_MS));
    expect(await backend.locks.acquireAll(many.slice(0, 64), TIMEOUT_MS)).toMatchObject({
      status: 'granted',
    });
    const replies = await Promise.all(backend.locks.extend(many, TIMEOUT_MS));
    expect(replies.filter((reply) => reply === 'extended')).toHaveLength(64);
    expect(replies.slice(64).every((reply) => reply === 'gone')).toBe(true);
  });

  describe('when answers are lost', () => {
    let proxy: TcpProxy;
    let far: Backend;

    beforeEach(async () => {
      proxy = await TcpProxy.start(server.port);
      far = await startBackend({ redis: proxy.url });
    });
    afterEach(async () => {
      await closeBackends();
      await proxy.stop();
    });

    it('L2: an acquire that was applied without an answer succeeds when it is sent again', async () => {
      const mine = lease('k');
      proxy.dropReplies(1);
      expect(await storeError(far.locks.acquire(mine, TIMEOUT_MS))).toMatchObject({
        outcome: 'unknown',
        retryable: true,
      });
      expect(await redis.get('k')).toBe(mine.token);
      await far.whenReady(10_000);
      expect(await far.locks.acquire(mine, TIMEOUT_MS)).toMatchObject({ status: 'granted' });
    });

    it('L2: given up, it leaves no key behind', async () => {
      const mine = lease('k', 500);
      proxy.dropReplies(1);
      await storeError(far.locks.acquire(mine, TIMEOUT_MS));
      expect(await redis.exists('k')).toBe(1);
      const done = far.locks.abandon({ ...mine, leaseMs: 500 });
      await waitFor(async () => (await redis.exists('k')) === 0, { timeoutMs: 5_000 });
      await done;
    });

    it('L43: a release without an answer, sent again, finds the next holder and leaves it alone', async () => {
      const [mine, next] = [lease('k'), lease('k')];
      await far.locks.acquire(mine, TIMEOUT_MS);
      proxy.dropReplies(1);
      expect(await storeError(far.locks.release({ ...mine, keepMs: 0 }, TIMEOUT_MS))).toMatchObject({
        outcome: 'unknown',
      });
      await granted(next);
      await far.whenReady(10_000);
      expect(await far.locks.release({ ...mine, keepMs: 0 }, TIMEOUT_MS)).toBe('foreign');
      expect(await redis.get('k')).toBe(next.token);
    });

    it('L47: on the connection that carried a late acquire the clean-up stands behind it', async () => {
      const mine = lease('k');
      proxy.delay(300, 'up');
      await storeError(far.locks.acquire(mine, 50));
      const done = far.locks.abandon(mine);
      await done;
      expect(await redis.exists('k')).toBe(0);
      expect(await redis.exists('{k}:fence')).toBe(1);
    });

    it('L47: applied after its connection died, it is gone within a second or so', async () => {
      const mine = lease('k', 3_000);
      proxy.dropReplies(1);
      await storeError(far.locks.acquire(mine, TIMEOUT_MS));
      const done = far.locks.abandon(mine);
      await waitFor(async () => (await redis.exists('k')) === 0, { what: 'the first clean-up' });
      // the old connection's last bytes, worked through late
      await redis.set('k', mine.token, 'PX', 60_000);
      await waitFor(async () => (await redis.exists('k')) === 0, {
        timeoutMs: 2_900,
        what: 'the next clean-up',
      });
      await done;
    });

    it('never sends again what has timed out, not even where the server did not know the script', async () => {
      const mine = lease('k');
      await redis.script('FLUSH');
      proxy.delay(200);
      await storeError(far.locks.acquire(mine, 50));
      proxy.pass();
      await far.locks.abandon(mine);
      expect(await redis.exists('k')).toBe(0);
    });

    it('abandons a try that is still under way', async () => {
      const mine = lease('k');
      proxy.delay(100, 'up');
      const acquiring = far.locks.acquire(mine, TIMEOUT_MS);
      await far.locks.abandon(mine);
      expect(await acquiring).toMatchObject({ status: 'granted' });
      expect(await redis.exists('k')).toBe(0);
    });

    it('close() cuts the clean-ups', async () => {
      proxy.dropReplies(1);
      const mine = lease('k', 60_000);
      await storeError(far.locks.acquire(mine, TIMEOUT_MS));
      proxy.cut();
      const done = far.locks.abandon(mine);
      await far.close();
      await done;
    });
  });
});
