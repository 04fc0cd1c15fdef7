import { inMemoryBackend } from 'nestjs-redis-lock/testing';
import type { Backend } from '../../lib/backend/backend.js';
import { redisBackend } from '../../lib/backend/redis/redis-backend.js';
import { QuotaManager } from '../../lib/quota/quota-manager.js';
import { RedisServer } from '../support/redis-server.js';

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
});
afterAll(() => server.stop());

describe.each([
  ['memory', (): Backend => inMemoryBackend()],
  ['redis', (): Backend => redisBackend({ redis: server.url })],
])('quota manager on %s', (kind, makeBackend) => {
  let backend: Backend;
  let quotas: QuotaManager;
  let count = 0;
  const newKey = (): string => `stock:${kind}:${++count}`;

  beforeAll(async () => {
    backend = makeBackend();
    await backend.start(10_000);
    quotas = new QuotaManager({ backend, keyPrefix: 'shop:' });
  });
  afterAll(() => backend.close());

  it('init creates once, and remaining tells what is left or that there is none', async () => {
    const key = newKey();
    expect(await quotas.remaining(key)).toBeNull();
    expect(await quotas.init(key, 10)).toBe(true);
    expect(await quotas.init(key, 20)).toBe(false);
    expect(await quotas.remaining(key)).toBe(10);
  });

  it('deduct takes 1 unless told, and returns a receipt under the key as it was given', async () => {
    const key = newKey();
    await quotas.init(key, 10);
    expect(await quotas.deduct(key)).toEqual({ key, amount: 1, remaining: 9, replayed: false });
    expect(await quotas.deduct(key, 4, { operationId: 'o1' })).toEqual({
      key,
      amount: 4,
      remaining: 5,
      operationId: 'o1',
      replayed: false,
    });
  });

  it('grant creates and adds, once for an operation id', async () => {
    const key = newKey();
    expect(await quotas.grant(key, 5)).toEqual({ key, amount: 5, remaining: 5, replayed: false });
    const receipt = { key, amount: 2, remaining: 7, operationId: 'g1' };
    expect(await quotas.grant(key, 2, { operationId: 'g1' })).toEqual({ ...receipt, replayed: false });
    expect(await quotas.grant(key, 2, { operationId: 'g1' })).toEqual({ ...receipt, replayed: true });
    expect(await quotas.remaining(key)).toBe(7);
  });

  it('Q3: the same operation id again takes nothing and returns the first receipt', async () => {
    const key = newKey();
    await quotas.init(key, 10);
    const first = await quotas.deduct(key, 3, { operationId: 'o1' });
    await quotas.deduct(key, 2);
    expect(await quotas.deduct(key, 3, { operationId: 'o1' })).toEqual({ ...first, replayed: true });
    expect(await quotas.tryDeduct(key, 3, { operationId: 'o1' })).toEqual({ ...first, replayed: true });
    expect(await quotas.remaining(key)).toBe(5);
  });

  it('Q3: one operation id from many callers at once takes once', async () => {
    const key = newKey();
    await quotas.init(key, 10);
    const receipts = await Promise.all(
      Array.from({ length: 20 }, () => quotas.deduct(key, 3, { operationId: 'o1' })),
    );
    expect(receipts.filter(({ replayed }) => !replayed)).toHaveLength(1);
    expect(new Set(receipts.map(({ remaining }) => remaining))).toEqual(new Set([7]));
    expect(await quotas.remaining(key)).toBe(7);
  });

  it('Q4: a refund gives back once; of an unknown or refused operation, nothing', async () => {
    const key = newKey();
    await quotas.init(key, 10);
    await quotas.deduct(key, 4, { operationId: 'o1' });
    const receipt = { key, amount: 4, remaining: 10, operationId: 'o1' };
    expect(await quotas.refund(key, 'o1')).toEqual({ ...receipt, replayed: false });
    expect(await quotas.refund(key, 'o1')).toEqual({ ...receipt, replayed: true });
    expect(await quotas.refund(key, 'never')).toBeNull();
    expect(await quotas.tryDeduct(key, 11, { operationId: 'refused' })).toBeNull();
    expect(await quotas.refund(key, 'refused')).toBeNull();
    expect(await quotas.remaining(key)).toBe(10);
  });

  it('Q5: an amount that is no positive safe integer is refused', async () => {
    const key = newKey();
    await quotas.init(key, 10);
    for (const amount of [0, -1, 1.5, 2 ** 53, NaN, Infinity, '3', null, {}, [1], 3n]) {
      for (const method of ['init', 'grant', 'deduct', 'tryDeduct'] as const) {
        await expect(quotas[method](key, amount as number)).rejects.toMatchObject({
          code: 'QUOTA_AMOUNT',
          key,
        });
      }
    }
    expect(await quotas.remaining(key)).toBe(10);
  });

  it('Q6: a quota that nobody created is not found, which is not "0 left"', async () => {
    const key = newKey();
    await expect(quotas.deduct(key)).rejects.toMatchObject({ code: 'QUOTA_NOT_FOUND', key });
    await expect(quotas.tryDeduct(key)).rejects.toMatchObject({ code: 'QUOTA_NOT_FOUND', key });
    expect(await quotas.remaining(key)).toBeNull();
  });

  it('Q9: a request for 5 with 3 left is refused; one for 1 then is granted', async () => {
    const key = newKey();
    await quotas.init(key, 3);
    await expect(quotas.deduct(key, 5)).rejects.toMatchObject({
      code: 'QUOTA_EXCEEDED',
      key,
      requested: 5,
      remaining: 3,
    });
    expect(await quotas.tryDeduct(key, 5)).toBeNull();
    expect(await quotas.deduct(key, 1)).toMatchObject({ remaining: 2 });
  });

  it('Q15: an operation id with another amount is refused and takes nothing', async () => {
    const key = newKey();
    await quotas.init(key, 10);
    await quotas.deduct(key, 3, { operationId: 'o1' });
    const refused = { code: 'QUOTA_OPERATION', key, operationId: 'o1' };
    await expect(quotas.deduct(key, 4, { operationId: 'o1' })).rejects.toMatchObject(refused);
    await expect(quotas.tryDeduct(key, 4, { operationId: 'o1' })).rejects.toMatchObject(refused);
    expect(await quotas.remaining(key)).toBe(7);
  });

  it('keeps the ids of grants and of deductions apart', async () => {
    const key = newKey();
    await quotas.grant(key, 10, { operationId: 'order:1' });
    expect(await quotas.deduct(key, 3, { operationId: 'order:1' })).toMatchObject({
      remaining: 7,
      replayed: false,
    });
    expect(await quotas.refund(key, 'order:1')).toMatchObject({ amount: 3, remaining: 10 });
    expect(await quotas.grant(key, 10, { operationId: 'order:1' })).toMatchObject({ replayed: true });
    expect(await quotas.remaining(key)).toBe(10);
  });

  it('Q15: a refunded operation is not taken again', async () => {
    const key = newKey();
    await quotas.init(key, 10);
    await quotas.deduct(key, 3, { operationId: 'o1' });
    await quotas.refund(key, 'o1');
    await expect(quotas.deduct(key, 3, { operationId: 'o1' })).rejects.toMatchObject({
      code: 'QUOTA_OPERATION',
      operationId: 'o1',
    });
    expect(await quotas.remaining(key)).toBe(10);
  });

  it('Q16: refused, restocked, the same operation id again: granted', async () => {
    const key = newKey();
    await quotas.init(key, 1);
    await expect(quotas.deduct(key, 2, { operationId: 'o1' })).rejects.toMatchObject({
      code: 'QUOTA_EXCEEDED',
    });
    await quotas.grant(key, 4);
    expect(await quotas.deduct(key, 2, { operationId: 'o1' })).toMatchObject({
      remaining: 3,
      replayed: false,
    });
  });

  it('refuses a key that is no key', async () => {
    for (const key of ['', '{}', 'a}b', '{}x', undefined, 5, ['a']]) {
      await expect(quotas.deduct(key as string)).rejects.toMatchObject({ code: 'LOCK_KEY' });
      await expect(quotas.remaining(key as string)).rejects.toMatchObject({ code: 'LOCK_KEY' });
    }
  });

  it('takes keys with a hash tag, spaces, unicode, of 5 kB', async () => {
    for (const key of ['{sku}:1', 'a b', 'prix:é:库存', 'k'.repeat(5_000)]) {
      await quotas.init(`${newKey()}:${key}`, 2);
      expect(await quotas.deduct(`stock:${kind}:${count}:${key}`, 1, { operationId: 'o' })).toMatchObject({
        remaining: 1,
      });
    }
  });

  it('refuses an operation id that is none, and options that are no options', async () => {
    const key = newKey();
    await quotas.init(key, 10);
    for (const operationId of ['', 'x'.repeat(256), '\ud800', 5, null, {}]) {
      const options = { operationId: operationId as string };
      await expect(quotas.deduct(key, 1, options)).rejects.toMatchObject({ code: 'QUOTA_OPERATION' });
      await expect(quotas.refund(key, operationId as string)).rejects.toMatchObject({
        code: 'QUOTA_OPERATION',
      });
    }
    await expect(quotas.deduct(key, 1, 'o1' as never)).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
    await expect(quotas.deduct(key, 1, { operation: 'o1' } as never)).rejects.toMatchObject({
      code: 'LOCK_CONFIG',
    });
    expect(await quotas.remaining(key)).toBe(10);
    await quotas.deduct(key, 1, { operationId: 'x'.repeat(255) });
  });
});
