import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import {
  FENCE_BLOCK,
  PASSED_ON_LEASE_MS,
  type AcquireRequest,
  type Backend,
  type InboxGrant,
} from '../../lib/backend/backend.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { closeBackends, lease, startBackend, storeError, TIMEOUT_MS } from './redis-fixture.js';

describe('waiting in Redis', () => {
  let server: RedisServer;
  let redis: Redis;
  let backend: Backend;
  let heard: InboxGrant[];
  let made = 0;

  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  beforeEach(async () => {
    await redis.flushall();
    backend = await listening({ redis: server.url });
  });
  afterEach(closeBackends);
  afterAll(() => server.stop());

  async function listening(options: Parameters<typeof startBackend>[0]): Promise<Backend> {
    const started = await startBackend(options);
    heard = [];
    started.locks.inbox.onGrant((grant) => heard.push(grant));
    await started.locks.inbox.open(10_000);
    return started;
  }
  const newToken = (): string => `${backend.tokenPrefix}-${String(++made).padStart(12, '0')}`;
  const mineOf = (key: string): AcquireRequest => ({ ...lease(key), token: newToken() });
  const held = async (key: string): Promise<AcquireRequest> => {
    const mine = mineOf(key);
    expect(await backend.locks.acquire(mine, TIMEOUT_MS)).toMatchObject({ status: 'granted' });
    return mine;
  };
  const queued = async (key: string, token = newToken()): Promise<AcquireRequest> => {
    const request = { ...lease(key), token, queue: true };
    expect(await backend.locks.acquire(request, TIMEOUT_MS)).toMatchObject({ status: 'busy' });
    return request;
  };
  const release = (request: AcquireRequest) => backend.locks.release({ ...request, keepMs: 0 }, TIMEOUT_MS);
  const heardFor = (token: string): Promise<InboxGrant> =>
    waitFor(() => heard.find((grant) => grant.token === token), { what: 'a grant to be heard' });

  it('a waiter keeps its place, and the queue goes when nobody looks any more', async () => {
    await held('k');
    const [first, second] = [await queued('k'), await queued('k')];
    const score = await redis.zscore('{k}:queue', first.token);
    await redis.pexpire('{k}:queue', 1_000);
    await queued('k', first.token);
    expect(await redis.zscore('{k}:queue', first.token)).toBe(score);
    expect(await redis.zrange('{k}:queue', '0', '-1')).toEqual([first.token, second.token]);
    const [seconds] = await redis.time();
    expect(Math.abs(Number(score) / 1e6 - Number(seconds))).toBeLessThan(60);
    const life = await redis.pttl('{k}:queue');
    expect(life).toBeGreaterThan(4_000);
    expect(life).toBeLessThanOrEqual(5_000);
  });

  it('L10: a single server skips those whom nobody listens for at once, at most 32 a call', async () => {
    const mine = await held('k');
    for (let dead = 0; dead < 5; dead++) await queued('k', randomUUID());
    const live = await queued('k');
    await release(mine);
    expect(await redis.get('k')).toBe(live.token);
    await heardFor(live.token);

    for (let dead = 0; dead < 40; dead++) await queued('k', randomUUID());
    await release(live);
    expect(await redis.exists('k')).toBe(0);
    expect(await redis.zcard('{k}:queue')).toBe(8);
    // nobody is left behind them: whoever asks gets the key
    const next = mineOf('k');
    expect(await backend.locks.acquire(next, TIMEOUT_MS)).toMatchObject({ status: 'granted' });
    expect(await redis.exists('{k}:queue')).toBe(0);
  });

  it('more dead ones than one call takes away leave the key free for the next who asks', async () => {
    const mine = await held('k');
    for (let dead = 0; dead < 80; dead++) await queued('k', randomUUID());
    const live = await queued('k');
    await release(mine);
    expect(await backend.locks.acquire(live, TIMEOUT_MS)).toMatchObject({ status: 'busy', remainingMs: 0 });
    expect(await redis.exists('k')).toBe(0);
    expect(await backend.locks.acquire(live, TIMEOUT_MS)).toMatchObject({ status: 'granted' });
  });

  it('a giver-way goes on when only dead ones wait, with fencing tokens that rise', async () => {
    const mine = mineOf('k');
    const first = await backend.locks.acquire(mine, TIMEOUT_MS);
    for (let dead = 0; dead < 3; dead++) await queued('k', randomUUID());
    const next = newToken();
    const reply = await backend.locks.giveWay({ ...mine, next }, TIMEOUT_MS);
    if (first.status !== 'granted' || reply.status !== 'kept') throw new Error(JSON.stringify(reply));
    expect(reply.fencingToken).toBeGreaterThanOrEqual(first.fencingToken + FENCE_BLOCK);
    expect(await redis.get('k')).toBe(next);
    expect(await redis.pttl('k')).toBeGreaterThan(PASSED_ON_LEASE_MS);
  });

  it('L30: with a prefix and database 5, queue and wake-ups are there, under the key as it was asked for', async () => {
    backend = await listening({ redis: server.client({ db: 5, keyPrefix: 'app:' }) });
    const mine = await held('lock:1');
    const waiter = await queued('lock:1');
    const there = server.client({ db: 5 });
    expect((await there.keys('*lock:1*')).sort()).toEqual([
      'app:lock:1',
      '{app:lock:1}:fence',
      '{app:lock:1}:queue',
    ]);
    await release(mine);
    expect((await heardFor(waiter.token)).key).toBe('lock:1');
  });

  it.each([
    ['spaces and lines', 'lock: a  b\n7 8 '],
    ['unicode', 'lock:订单:🔒'],
    ['a hash tag', 'lock:{order:1}:x'],
    ['5 kB', `lock:${'x'.repeat(5_000)}`],
  ])('L39: a grant names its key, whatever that looks like: %s', async (_, key) => {
    const mine = await held(key);
    const waiter = await queued(key);
    await release(mine);
    expect((await heardFor(waiter.token)).key).toBe(key);
  });

  it('a grant is heard outside the call chain that opened the inbox', async () => {
    const chain = new AsyncLocalStorage<string>();
    const other = await startBackend({ redis: server.url });
    const seen: Array<string | undefined> = [];
    await chain.run('a request', async () => {
      other.locks.inbox.onListening(() => seen.push(chain.getStore()));
      other.locks.inbox.onGrant(() => seen.push(chain.getStore()));
      await other.locks.inbox.open(10_000);
      const mine = lease('k');
      await other.locks.acquire(mine, TIMEOUT_MS);
      const token = `${other.tokenPrefix}-000000000001`;
      await other.locks.acquire({ ...mine, token, queue: true }, TIMEOUT_MS);
      await other.locks.release({ ...mine, keepMs: 0 }, TIMEOUT_MS);
    });
    await waitFor(() => seen.length === 2);
    expect(seen).toEqual([undefined, undefined]);
  });

  it("messages that are none of ours are ignored, and an operator's is told apart", async () => {
    const channel = `nestjs-redis-lock:inbox:${backend.tokenPrefix}`;
    const taken: unknown[] = [];
    backend.locks.inbox.onForceRelease((one) => taken.push(one));
    const token = newToken();
    for (const text of ['', 'x', `${token} 1`, `${token} x 2 k`, `${token} 1 2 `]) {
      await redis.publish(channel, text);
    }
    await redis.publish(channel, `${token} 0 5 k k`);
    await redis.publish(channel, `${token} 3 5 k`);
    await heardFor(token);
    expect(heard).toEqual([{ key: 'k', token, fencingToken: 3, time: 5 }]);
    expect(taken).toEqual([{ key: 'k k', token }]);
  });

  describe('when the companions hold something else', () => {
    it('a queue of another type: a free lock is refused with its cause, a held one is released', async () => {
      const mine = await held('k');
      await redis.set('{k}:queue', 'text');
      const waiting = await storeError(backend.locks.acquire({ ...mineOf('k'), queue: true }, TIMEOUT_MS));
      expect(waiting.message).toContain('WRONGTYPE');
      expect(await release(mine)).toBe('released');
      expect(await redis.exists('k')).toBe(0);
      const error = await storeError(backend.locks.acquire(mineOf('k'), TIMEOUT_MS));
      expect(error.message).toContain('WRONGTYPE');
      expect(await redis.exists('k')).toBe(0);
    });

    it('a fence of another type: nothing stays held by one who cannot be told of it', async () => {
      for (const giveBack of [
        (mine: AcquireRequest) => release(mine),
        (mine: AcquireRequest) => backend.locks.giveWay({ ...mine, next: newToken() }, TIMEOUT_MS),
        (mine: AcquireRequest) => backend.locks.forceRelease(mine.key, TIMEOUT_MS),
        (mine: AcquireRequest) => backend.locks.abandon(mine),
      ]) {
        const mine = await held('k');
        await queued('k');
        await redis.del('{k}:fence');
        await redis.hset('{k}:fence', 'field', 'value');
        await giveBack(mine);
        expect(await redis.exists('k')).toBe(0);
        await redis.flushall();
      }
    });
  });

  it('L41: out of memory, a lock that others wait for is given back all the same', async () => {
    const mine = await held('k');
    await queued('k');
    await redis.config('SET', 'maxmemory', '1');
    try {
      expect(await release(mine)).toBe('released');
      expect(await redis.get('k')).not.toBe(mine.token);
    } finally {
      await redis.config('SET', 'maxmemory', '0');
    }
  });

  it('an operator may take away what is no token of ours', async () => {
    await redis.set('k', 'foreign');
    expect(await backend.locks.forceRelease('k', TIMEOUT_MS)).toBe(true);
    await redis.set('k', 'x'.repeat(100_000));
    const waiter = await queued('k');
    expect(await backend.locks.forceRelease('k', TIMEOUT_MS)).toBe(true);
    await heardFor(waiter.token);
  });

  describe('when answers are lost', () => {
    let proxy: TcpProxy;

    beforeEach(async () => {
      proxy = await TcpProxy.start(server.port);
      backend = await startBackend({ redis: proxy.url });
    });
    afterEach(async () => {
      await closeBackends();
      await proxy.stop();
    });

    it('a give-way that was applied without an answer: its next token leaves nothing behind', async () => {
      const mine = await held('k');
      const other = lease('k');
      await redis.zadd('{k}:queue', 1, other.token);
      const next = newToken();
      proxy.dropReplies(1);
      const error = await storeError(backend.locks.giveWay({ ...mine, next }, TIMEOUT_MS));
      expect(error).toMatchObject({ outcome: 'unknown' });
      await backend.whenReady(10_000);
      // the only other one was dead, so it was kept
      expect(await redis.get('k')).toBe(next);
      await backend.locks.abandon({ key: 'k', token: next, leaseMs: 100, ttlMs: 30_000 });
      expect(await redis.exists('k', '{k}:queue')).toBe(0);
    });

    it('L11: a look that was applied without an answer leaves no place in the queue behind', async () => {
      await redis.set('k', 'foreign', 'PX', 60_000);
      const waiter = { ...mineOf('k'), queue: true };
      proxy.dropReplies(1);
      await storeError(backend.locks.acquire(waiter, TIMEOUT_MS));
      expect(await redis.zcard('{k}:queue')).toBe(1);
      await backend.whenReady(10_000);
      await backend.locks.abandon({ ...waiter, leaseMs: 100 });
      expect(await redis.exists('{k}:queue')).toBe(0);
    });
  });
});
