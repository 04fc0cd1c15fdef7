import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Backend } from '../../lib/backend/backend.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { carryOut, closeBackends, operation, startBackend, storeError, TIMEOUT_MS } from './redis-fixture.js';

describe('quotas in Redis', () => {
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
    await backend.quotas.init('q', 10, TIMEOUT_MS);
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await closeBackends();
  });
  afterAll(() => server.stop());

  const deduct = (amount: number, ref = operation(), on = backend) =>
    carryOut(on, 'q', { kind: 'deduct', amount }, ref);
  const grant = (amount: number, ref = operation()) => carryOut(backend, 'q', { kind: 'grant', amount }, ref);
  const refund = (operationId: string, on = backend) => carryOut(on, 'q', { kind: 'refund', operationId });

  it('keeps the number where others look: HGET key remain', async () => {
    await deduct(3);
    expect(await redis.hgetall('q')).toEqual({ remain: '7' });
    await redis.hincrby('q', 'remain', 5);
    expect(await backend.quotas.remaining('q', TIMEOUT_MS)).toBe(12);
  });

  it('Q6: a quota without its field is not found', async () => {
    await redis.del('q');
    await redis.hset('q', 'other', '1');
    expect(await deduct(1)).toEqual({ status: 'notFound' });
    expect(await backend.quotas.remaining('q', TIMEOUT_MS)).toBeNull();
  });

  it.each(['many', '1.5', '', ' 3', '1e3', '0x10', '9007199254740992', '-9007199254740993'])(
    'Q7: a number that is none is told with the key, and nothing changes: %j',
    async (text) => {
      await redis.hset('q', 'remain', text);
      for (const call of [() => deduct(1), () => deduct(1, operation('o')), () => grant(1)]) {
        expect(await call()).toEqual({ status: 'unusable', why: 'noInteger' });
      }
      const error = await storeError(backend.quotas.remaining('q', TIMEOUT_MS));
      expect(error).toMatchObject({ outcome: 'notApplied', retryable: false });
      expect(error.message).toContain('"q"');
      expect(await redis.hget('q', 'remain')).toBe(text);
    },
  );

  it('Q7: another type of value is told with the key', async () => {
    await redis.set('text', 'x');
    const error = await storeError(carryOut(backend, 'text', { kind: 'deduct', amount: 1 }));
    expect(error.message).toMatch(/"text".*WRONGTYPE/);
  });

  it('refuses a grant or refund beyond 2^53-1, and changes nothing', async () => {
    const id = randomUUID();
    await deduct(5, operation(id));
    await redis.hset('q', 'remain', String(Number.MAX_SAFE_INTEGER - 2));
    for (const call of [() => grant(3), () => refund(id)]) {
      expect(await call()).toEqual({ status: 'unusable', why: 'tooLarge' });
    }
    expect(await grant(2)).toMatchObject({ remaining: Number.MAX_SAFE_INTEGER });
  });

  it('Q15, Q16: another amount is refused; a refusal is not kept', async () => {
    const id = randomUUID();
    expect(await deduct(11, operation(id))).toEqual({ status: 'exceeded', remaining: 10 });
    await grant(5);
    expect(await deduct(11, operation(id))).toMatchObject({ status: 'granted', remaining: 4 });
    expect(await deduct(1, operation(id))).toEqual({ status: 'otherAmount', amount: 11 });
    expect(await refund(id)).toMatchObject({ status: 'givenBack' });
    expect(await deduct(11, operation(id))).toEqual({ status: 'refunded', amount: 11 });
    expect(await backend.quotas.remaining('q', TIMEOUT_MS)).toBe(15);
  });

  it('Q3: without an answer, sent again under its id: taken once, replayed', async () => {
    const proxy = await TcpProxy.start(server.port);
    const far = await startBackend({ redis: proxy.url });
    for (const ref of [operation(randomUUID()), operation()]) {
      const before = (await backend.quotas.remaining('q', TIMEOUT_MS))!;
      proxy.dropReplies(1);
      expect(await storeError(deduct(2, ref, far))).toMatchObject({
        outcome: 'unknown',
      });
      await far.whenReady(10_000);
      expect(await deduct(2, ref, far)).toEqual({
        status: 'granted',
        amount: 2,
        remaining: before - 2,
        replayed: true,
      });
      expect(await backend.quotas.remaining('q', TIMEOUT_MS)).toBe(before - 2);
    }
    await closeBackends();
    await proxy.stop();
  });

  it('the operations of a period go two periods after its beginning', async () => {
    await deduct(1, operation(randomUUID()));
    await deduct(1);
    const kept = (await redis.keys('{q}:*')).sort();
    expect(kept).toEqual([
      expect.stringMatching(/^\{q}:calls:\d+$/),
      expect.stringMatching(/^\{q}:ops:60000:\d+$/),
    ]);
    const [calls, ops] = await Promise.all(kept.map((key) => redis.pttl(key)));
    expect(calls).toBeGreaterThan(120_000);
    expect(calls).toBeLessThanOrEqual(240_000);
    expect(ops).toBeGreaterThan(60_000);
    expect(ops).toBeLessThanOrEqual(120_000);
  });

  it('knows an operation for its whole ttl, also from one period in the next', async () => {
    const ref = { ...operation(randomUUID()), operationTtlMs: 1_000 };
    const periodOf = async (): Promise<number> => Math.floor(Number((await redis.time())[0]));
    expect(await deduct(1, ref)).toMatchObject({ replayed: false });
    const first = await periodOf();
    while ((await periodOf()) === first) await redis.ping();
    expect(await deduct(1, ref)).toMatchObject({ replayed: true });
  });

  it.each([3_600_000, -3_600_000, 86_400_000])(
    'a clock of ours that is %d ms off makes no difference',
    async (offset) => {
      const now = Date.now;
      jest.spyOn(Date, 'now').mockImplementation(() => now() + offset);
      const id = randomUUID();
      const skewed = await startBackend({ redis: server.url });
      expect(await deduct(2, operation(id), skewed)).toMatchObject({
        replayed: false,
      });
      jest.restoreAllMocks();
      expect(await deduct(2, operation(id))).toMatchObject({ status: 'granted', replayed: true });
      expect(await refund(id, skewed)).toMatchObject({ remaining: 10 });
    },
  );
});
