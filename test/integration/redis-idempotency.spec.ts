import type { Redis } from 'ioredis';
import type { Backend } from '../../lib/backend/backend.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { closeBackends, run, startBackend, storeError, TIMEOUT_MS } from './redis-fixture.js';

describe('idempotency records in Redis', () => {
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

  const begin = (request: ReturnType<typeof run>) => backend.idempotency.begin(request, TIMEOUT_MS);
  const owned = (request: ReturnType<typeof run>, attempt = 1) => ({ ...request, attempt });

  it('keeps the payload byte by byte', async () => {
    const mine = run('r');
    await begin(mine);
    const payload = Buffer.from(Array.from({ length: 512 }, (_, at) => at % 256));
    await backend.idempotency.complete({ ...owned(mine), payload }, TIMEOUT_MS);
    expect(await begin(run('r'))).toEqual({ status: 'replay', attempt: 1, payload });
  });

  it('counts the lease by the clock of Redis, as a field: the record outlives it', async () => {
    await begin(run('r', { leaseMs: 50, fingerprint: 'f' }));
    await waitFor(async () => (await backend.idempotency.inspect('r', TIMEOUT_MS))?.leaseMs === 0);
    expect(await redis.pttl('r')).toBeGreaterThan(50_000);
    expect(await begin(run('r', { fingerprint: 'other' }))).toEqual({ status: 'mismatch' });
    expect(await begin(run('r', { fingerprint: 'f' }))).toEqual({ status: 'takeover', attempt: 2 });
  });

  it('the life of a record is raised to the ttl, never lowered', async () => {
    const mine = run('r', { ttlMs: 100_000 });
    await begin(mine);
    await backend.idempotency.complete(
      { ...owned(mine), ttlMs: 1_000, payload: Buffer.from('x') },
      TIMEOUT_MS,
    );
    expect(await redis.pttl('r')).toBeGreaterThan(90_000);
  });

  it('I16: a record that vanished is written again, by the renewal or at completion', async () => {
    const mine = run('r', { fingerprint: 'f' });
    await begin(mine);
    await redis.del('r');
    expect(await backend.idempotency.renew(owned(mine, 3), TIMEOUT_MS)).toBe('recreated');
    expect(await redis.hmget('r', 'state', 'owner', 'attempt', 'fingerprint')).toEqual([
      'pending',
      mine.owner,
      '3',
      'f',
    ]);
    await redis.del('r');
    const payload = Buffer.from('paid');
    expect(await backend.idempotency.complete({ ...owned(mine, 3), payload }, TIMEOUT_MS)).toEqual({
      status: 'recreated',
    });
    expect(await begin(run('r', { fingerprint: 'f' }))).toEqual({ status: 'replay', attempt: 3, payload });
  });

  it.each<[string, Record<string, string>]>([
    ['an unknown state', { state: 'running', attempt: '1', lease: '1' }],
    ['no state', { owner: 'x' }],
    ['an attempt that is no number', { state: 'pending', attempt: 'x', lease: '1' }],
    ['a lease that is no number', { state: 'pending', attempt: '1', lease: 'soon' }],
    ['done without an attempt', { state: 'done', payload: 'p' }],
  ])('I17: a damaged record counts as done and unreplayable, not as absent: %s', async (_, fields) => {
    await redis.hset('r', fields);
    const before = await redis.hgetall('r');
    const nothing = Buffer.alloc(0);
    const mine = run('r');
    expect(await begin(mine)).toMatchObject({ status: 'replay', payload: nothing });
    expect(await backend.idempotency.renew(owned(mine), TIMEOUT_MS)).toBe('lost');
    expect(
      await backend.idempotency.complete({ ...owned(mine), payload: Buffer.from('x') }, TIMEOUT_MS),
    ).toEqual({
      status: 'lostDone',
      payload: nothing,
    });
    expect(await backend.idempotency.release(mine, TIMEOUT_MS)).toBe('lost');
    expect(await backend.idempotency.inspect('r', TIMEOUT_MS)).toMatchObject({
      state: 'done',
      payload: nothing,
    });
    expect(await redis.hgetall('r')).toEqual(before);
  });

  it('another type of value at that key is told with its name, and stays', async () => {
    await redis.set('r', 'application data');
    const mine = run('r');
    for (const call of [
      () => begin(mine),
      () => backend.idempotency.renew(owned(mine), TIMEOUT_MS),
      () => backend.idempotency.complete({ ...owned(mine), payload: Buffer.from('x') }, TIMEOUT_MS),
      () => backend.idempotency.release(mine, TIMEOUT_MS),
      () => backend.idempotency.inspect('r', TIMEOUT_MS),
      () => backend.idempotency.forget('r', TIMEOUT_MS),
    ]) {
      const error = await storeError(call());
      expect(error).toMatchObject({ outcome: 'notApplied', retryable: false });
      expect(error.message).toMatch(/"r".*WRONGTYPE/);
    }
    expect(await redis.get('r')).toBe('application data');
  });

  describe('when the answer of a begin is lost', () => {
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

    it('sent again by its owner it is new, as attempt 1', async () => {
      const mine = run('r');
      proxy.dropReplies(1);
      expect(await storeError(far.idempotency.begin(mine, TIMEOUT_MS))).toMatchObject({ outcome: 'unknown' });
      await far.whenReady(10_000);
      expect(await far.idempotency.begin(mine, TIMEOUT_MS)).toEqual({ status: 'new', attempt: 1 });
    });

    it('I30: given up, the next request runs at once as attempt 1', async () => {
      const mine = run('r', { leaseMs: 1_500 });
      proxy.dropReplies(1);
      await storeError(far.idempotency.begin(mine, TIMEOUT_MS));
      expect(await redis.exists('r')).toBe(1);
      const done = far.idempotency.abandon(mine);
      await waitFor(async () => (await redis.exists('r')) === 0, { what: 'the record to go' });
      expect(await begin(run('r'))).toEqual({ status: 'new', attempt: 1 });
      await done;
      expect(await redis.exists('r')).toBe(1);
    });

    it('I30: the clean-up stands behind a begin that is still under way', async () => {
      const mine = run('r');
      proxy.delay(300, 'up');
      await storeError(far.idempotency.begin(mine, 50));
      await far.idempotency.abandon(mine);
      expect(await redis.exists('r')).toBe(0);
    });

    it('a takeover that is given up takes its attempt back and leaves nobody busy', async () => {
      await begin(run('r', { leaseMs: 1 }));
      const mine = run('r');
      await waitFor(async () => (await backend.idempotency.inspect('r', TIMEOUT_MS))?.leaseMs === 0);
      proxy.delay(200, 'up');
      await storeError(far.idempotency.begin(mine, 50));
      await far.idempotency.abandon(mine);
      await far.idempotency.abandon(mine);
      expect(await begin(run('r'))).toEqual({ status: 'takeover', attempt: 2 });
    });
  });
});
