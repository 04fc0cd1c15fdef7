import { redisBackend } from '../../lib/backend/redis/redis-backend.js';
import type { Backend } from '../../lib/backend/backend.js';
import { QuotaManager } from '../../lib/quota/quota-manager.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';

describe('quota manager with a Redis that fails', () => {
  let server: RedisServer;
  let proxy: TcpProxy;
  let backend: Backend;
  let quotas: QuotaManager;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());

  beforeEach(async () => {
    await server.client().flushall();
    proxy = await TcpProxy.start(server.port);
    backend = redisBackend({ redis: proxy.url });
    await backend.start(10_000);
    quotas = new QuotaManager({ backend });
    await quotas.init('stock', 10);
    // Now the scripts are known: the reply that a test loses is that of the operation.
    await quotas.deduct('stock', 1, { operationId: 'first' });
    await quotas.refund('stock', 'first');
  });
  afterEach(async () => {
    await backend.close();
    await proxy.stop();
  });

  /** Lets answers through again, over a new connection: bytes are missing in the old one. */
  const recover = (): void => {
    proxy.closeConnections();
    proxy.pass();
  };
  const disconnected = (): Promise<boolean> =>
    waitFor(() =>
      backend.whenReady(1).then(
        () => false,
        () => true,
      ),
    );
  const stored = async (): Promise<number> => Number(await server.client().hget('stock', 'remain'));

  it('Q3: a reply lost after the script ran: taken once, the retry returns the first receipt', async () => {
    proxy.dropReplies(1);
    expect(await quotas.deduct('stock', 3, { operationId: 'o1' })).toEqual({
      key: 'stock',
      amount: 3,
      remaining: 7,
      operationId: 'o1',
      replayed: true,
    });
    expect(await stored()).toBe(7);
  });

  it('Q3: a call that ended unanswered, repeated by the caller with its id: taken once', async () => {
    proxy.swallow();
    await expect(quotas.deduct('stock', 3, { operationId: 'o1' })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      outcome: 'unknown',
    });
    recover();
    expect(await quotas.deduct('stock', 3, { operationId: 'o1' })).toMatchObject({
      remaining: 7,
      replayed: true,
    });
    expect(await stored()).toBe(7);
  });

  it('a grant and a refund whose replies are lost are carried out once', async () => {
    await quotas.grant('stock', 1);
    proxy.dropReplies(1);
    expect(await quotas.grant('stock', 5, { operationId: 'g1' })).toMatchObject({
      remaining: 16,
      replayed: true,
    });
    await quotas.deduct('stock', 6, { operationId: 'o1' });
    proxy.dropReplies(1);
    expect(await quotas.refund('stock', 'o1')).toMatchObject({ remaining: 16, replayed: true });
    expect(await stored()).toBe(16);
  });

  it('Q15: deduct unanswered, refund, the deduct again: refused, and nothing taken', async () => {
    proxy.swallow();
    await expect(quotas.deduct('stock', 3, { operationId: 'o1' })).rejects.toMatchObject({
      outcome: 'unknown',
    });
    recover();
    expect(await quotas.refund('stock', 'o1')).toMatchObject({ amount: 3, remaining: 10 });
    await expect(quotas.deduct('stock', 3, { operationId: 'o1' })).rejects.toMatchObject({
      code: 'QUOTA_OPERATION',
      operationId: 'o1',
    });
    expect(await stored()).toBe(10);
  });

  it('Q17: a call without operation id that stays unanswered says that its outcome is unknown', async () => {
    proxy.swallow();
    const error: unknown = await quotas.deduct('stock', 3).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', outcome: 'unknown' });
    expect((error as Error).message).toMatch(/outcome is unknown/);
    // However many tries there were, they were one call.
    expect(await stored()).toBe(7);
  });

  it('Q17: a call without operation id that is answered on a retry takes once', async () => {
    proxy.dropReplies(1);
    expect(await quotas.deduct('stock', 3)).toEqual({
      key: 'stock',
      amount: 3,
      remaining: 7,
      replayed: false,
    });
    expect(await stored()).toBe(7);
  });

  it('Q17: says that nothing was carried out when no connection could be had', async () => {
    proxy.cut();
    await disconnected();
    const error: unknown = await quotas.deduct('stock', 3).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', outcome: 'notApplied' });
    expect(await stored()).toBe(10);
    proxy.open();
  });

  it('waits inside its budget for a Redis that comes back', async () => {
    proxy.cut();
    const receipt = quotas.deduct('stock', 3);
    await disconnected();
    proxy.open();
    expect(await receipt).toMatchObject({ remaining: 7 });
  });

  it('an init whose reply was lost is not told a guess', async () => {
    await server.client().del('stock');
    proxy.dropReplies(1);
    await expect(quotas.init('stock', 5)).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      outcome: 'unknown',
    });
    expect(await quotas.init('stock', 99)).toBe(false);
    expect(await stored()).toBe(5);
  });

  it("keeps a quota as a hash with the field 'remain', under the module's prefix", async () => {
    const prefixed = new QuotaManager({ backend, keyPrefix: 'shop:' });
    await prefixed.grant('stock', 5);
    expect(await server.client().hgetall('shop:stock')).toEqual({ remain: '5' });
    await server.client().hincrby('shop:stock', 'remain', 2);
    expect(await prefixed.remaining('stock')).toBe(7);
  });

  it('survives SCRIPT FLUSH between any two calls', async () => {
    const client = server.client();
    for (let i = 0; i < 3; i++) {
      await client.script('FLUSH');
      expect(await quotas.deduct('stock', 1, { operationId: `o${i}` })).toMatchObject({ remaining: 9 - i });
    }
  });

  it('Q5: Redis is not asked for an amount that is none', async () => {
    const client = server.client();
    const scriptCalls = async (): Promise<string> =>
      /cmdstat_evalsha:calls=(\d+)/.exec(await client.info('commandstats'))?.[1] ?? '';
    const before = await scriptCalls();
    expect(before).not.toBe('');
    for (const amount of [0, -1, 1.5, 2 ** 53, NaN, '3']) {
      await expect(quotas.deduct('stock', amount as number)).rejects.toMatchObject({ code: 'QUOTA_AMOUNT' });
    }
    expect(await scriptCalls()).toBe(before);
  });

  it.each(['text', '', '1.5', '9007199254740993', '1e3'])(
    'Q7: a stored value that is no integer (%p) is an error that names the key',
    async (value) => {
      await server.client().hset('stock', 'remain', value);
      for (const call of [
        quotas.deduct('stock'),
        quotas.grant('stock', 1),
        quotas.remaining('stock'),
        quotas.tryDeduct('stock', 1, { operationId: 'o1' }),
      ]) {
        const error: unknown = await call.catch((reason: unknown) => reason);
        expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', outcome: 'notApplied', retryable: false });
        expect((error as Error).message).toContain('stock');
      }
      expect(await server.client().hget('stock', 'remain')).toBe(value);
    },
  );

  it('Q7: a key that is no hash is an error that names the key and WRONGTYPE', async () => {
    await server.client().set('stock', 'text');
    const error: unknown = await quotas.deduct('stock').catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', outcome: 'notApplied', retryable: false });
    expect((error as Error).message).toMatch(/stock/);
    expect((error as Error).message).toMatch(/WRONGTYPE/);
  });
});
