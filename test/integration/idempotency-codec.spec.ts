import { HttpException } from '@nestjs/common';
import type { Redis } from 'ioredis';
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { ExecuteOptions, IdempotencyCodec } from '../../lib/index.js';
import { RedisServer } from '../support/redis-server.js';
import { deferred, freshKey, Sites, type Site } from './idempotency-fixture.js';

const code = (name: string) => expect.objectContaining({ code: name });

/** Encrypts stored replies with AES-256-GCM; bytes that were put under another record are refused. */
function encrypting(keys: Record<string, Buffer>, current: string): IdempotencyCodec {
  return {
    encode(payload, recordKey) {
      const iv = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', keys[current]!, iv).setAAD(Buffer.from(recordKey));
      const text = Buffer.concat([cipher.update(payload), cipher.final()]);
      return Buffer.concat([Buffer.from(current.padEnd(8)), iv, cipher.getAuthTag(), text]);
    },
    decode(encoded, recordKey) {
      const key = keys[encoded.toString('latin1', 0, 8).trimEnd()];
      if (!key) throw new Error('the key of this record is not known any more');
      const decipher = createDecipheriv('aes-256-gcm', key, encoded.subarray(8, 20));
      decipher.setAAD(Buffer.from(recordKey)).setAuthTag(encoded.subarray(20, 36));
      return Buffer.concat([decipher.update(encoded.subarray(36)), decipher.final()]);
    },
  };
}

describe('what is kept of a reply', () => {
  const sites = new Sites();
  const keys = { k1: randomBytes(32), k2: randomBytes(32) };
  const secret = 'PAN 4111 1111 1111 1111';
  let server: RedisServer;
  let redis: Redis;
  let site: Site;

  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    site = await sites.start(server.url);
  });
  afterEach(() => sites.closeAll());

  const run = (key: string, value: unknown, options: ExecuteOptions) =>
    site.service.execute(key, () => value, options);
  const stored = async (key: string): Promise<string> => {
    const { recordKey } = (await site.service.inspect(key))!;
    return Object.values(await redis.hgetall(recordKey)).join();
  };

  describe('codec', () => {
    it.each<[string, unknown]>([
      ['an object', { card: secret, amount: 10 }],
      ['text', secret],
      ['bytes', Buffer.from(secret)],
      ['nothing', undefined],
    ])('encrypts %s: unreadable in the store, replayed as it was', async (_, value) => {
      const key = freshKey();
      const codec = encrypting(keys, 'k1');
      await expect(run(key, value, { codec })).resolves.toEqual({ value, replayed: false, attempt: 1 });
      expect(await stored(key)).not.toContain('4111');
      await expect(run(key, 'never', { codec })).resolves.toEqual({ value, replayed: true, attempt: 1 });
      await expect(site.service.inspect(key)).resolves.toMatchObject({ replayable: true });
    });

    it('a new key reads what an old one wrote, and a reply kept without a codec is replayed', async () => {
      const [old, plain] = [freshKey(), freshKey()];
      await run(old, 'paid', { codec: encrypting(keys, 'k1') });
      await run(plain, 'paid', {});
      const codec = encrypting(keys, 'k2');
      for (const key of [old, plain]) {
        await expect(run(key, 'never', { codec })).resolves.toMatchObject({ value: 'paid', replayed: true });
      }
    });

    it('may be asynchronous, and compress', async () => {
      const key = freshKey();
      const codec: IdempotencyCodec = {
        encode: async (payload) => gzipSync(payload),
        decode: async (encoded) => new Uint8Array(gunzipSync(encoded)),
      };
      const value = { text: 'x'.repeat(100_000) };
      await run(key, value, { codec });
      expect((await stored(key)).length).toBeLessThan(5_000);
      await expect(run(key, 'never', { codec })).resolves.toMatchObject({ value, replayed: true });
    });

    it('the winner’s reply is decoded for the owner that was slower, and for those who wait', async () => {
      const key = freshKey();
      const codec = encrypting(keys, 'k1');
      const other = await sites.start(server.url);
      const gate = deferred<string>();
      const slow = site.service.execute(key, () => gate.promise, { codec });
      await site.seen('started');
      const waiting = other.service.execute(key, () => 'never', { codec, onConcurrent: 'wait' });
      await site.service.forget(key);
      const second = await other.service.execute(key, () => 'second', { codec, onConcurrent: 'wait' });
      gate.resolve('first');
      const values = [(await slow).value, second.value, (await waiting).value];
      expect(new Set(values).size).toBe(1);
      expect(values[0]).not.toBe('first');
    });

    it.each<[string, IdempotencyCodec['encode']]>([
      [
        'throws',
        () => {
          throw new Error('no key');
        },
      ],
      ['rejects', () => Promise.reject(new Error('no key'))],
      ['gives no bytes', () => 'text' as never],
    ])(
      'an encode that %s: the first caller is answered, nothing is kept, nothing runs again',
      async (_, encode) => {
        const key = freshKey();
        const codec = { ...encrypting(keys, 'k1'), encode };
        await expect(run(key, secret, { codec })).resolves.toMatchObject({ value: secret, replayed: false });
        expect(await stored(key)).not.toContain('4111');
        await expect(site.seen('completed')).resolves.toMatchObject({
          error: expect.objectContaining({ message: expect.stringContaining('encode') }),
        });
        const again = jest.fn();
        await expect(site.service.execute(key, again, { codec })).rejects.toEqual(
          code('IDEMPOTENCY_UNREPLAYABLE'),
        );
        expect(again).not.toHaveBeenCalled();
        await expect(site.service.inspect(key)).resolves.toMatchObject({ state: 'done', replayable: false });
      },
    );

    it.each<[string, IdempotencyCodec | undefined]>([
      ['throws', encrypting({}, 'k1')],
      ['gives something else', { ...encrypting({}, 'k1'), decode: () => Buffer.from('garbage') }],
      ['is missing', undefined],
    ])('a decode that %s: refused, told, and nothing runs again', async (_, codec) => {
      const key = freshKey();
      await run(key, 'paid', { codec: encrypting(keys, 'k1') });
      const again = jest.fn();
      await expect(site.service.execute(key, again, codec ? { codec } : {})).rejects.toMatchObject({
        code: 'IDEMPOTENCY_UNREPLAYABLE',
        cause: expect.any(Error),
      });
      expect(again).not.toHaveBeenCalled();
      await expect(site.seen('replayed')).resolves.toMatchObject({ error: expect.any(Error) });
    });

    it('bytes that were moved to another record are refused', async () => {
      const [key, other] = [freshKey(), freshKey()];
      const codec = encrypting(keys, 'k1');
      await run(key, 'for ann', { codec });
      await run(other, 'for bob', { codec });
      const [from, to] = [(await site.service.inspect(key))!, (await site.service.inspect(other))!];
      await redis.hset(to.recordKey, 'payload', (await redis.hgetBuffer(from.recordKey, 'payload'))!);
      await expect(run(other, 'never', { codec })).rejects.toEqual(code('IDEMPOTENCY_UNREPLAYABLE'));
    });
  });

  describe('beforeStore', () => {
    it('changes what is kept and repeated; the first caller gets the whole reply', async () => {
      const value = { id: 1, card: { pan: secret, last4: '1111' } };
      const functions: Array<ExecuteOptions['beforeStore']> = [
        (kept) => ({ ...kept, card: { last4: kept.card.last4 } }),
        async (kept) => ({ ...kept, card: { last4: kept.card.last4 } }),
        (kept) => {
          delete kept.card.pan;
        },
      ];
      for (const beforeStore of functions) {
        const key = freshKey();
        await expect(run(key, value, { beforeStore: beforeStore! })).resolves.toMatchObject({ value });
        expect(value.card.pan).toBe(secret);
        expect(await stored(key)).not.toContain('4111');
        await expect(run(key, 'never', {})).resolves.toMatchObject({
          value: { id: 1, card: { last4: '1111' } },
          replayed: true,
        });
      }
    });

    it('what it leaves alone is repeated as it was, bytes and nothing too', async () => {
      for (const value of [undefined, null, 0, '', Buffer.from([0, 255]), { at: [1] }]) {
        const key = freshKey();
        await run(key, value, { beforeStore: (kept) => kept });
        await expect(run(key, 'never', {})).resolves.toMatchObject({ value, replayed: true });
      }
    });

    it('of an error that is kept it changes the response, and what else tells the same goes', async () => {
      const key = freshKey();
      const error = Object.assign(new HttpException({ message: 'declined', pan: secret }, 422), {
        pan: secret,
      });
      const options: ExecuteOptions = {
        onError: 'store',
        beforeStore: ({ message }) => ({ message }),
      };
      await expect(run(key, Promise.reject(error), options)).rejects.toBe(error);
      expect(await stored(key)).not.toContain('4111');
      const again: unknown = await run(key, 'never', options).catch((repeat: unknown) => repeat);
      expect((again as HttpException).getResponse()).toEqual({ message: 'declined' });
      expect((again as HttpException).getStatus()).toBe(422);
    });

    it('one that fails keeps nothing, and nothing runs again', async () => {
      const fail = (): never => {
        throw new Error('a bug');
      };
      for (const beforeStore of [fail, () => Promise.reject(new Error('a bug')), () => 1n]) {
        const key = freshKey();
        await expect(run(key, secret, { beforeStore })).resolves.toMatchObject({ value: secret });
        expect(await stored(key)).not.toContain('4111');
        await expect(run(key, 'never', {})).rejects.toEqual(code('IDEMPOTENCY_UNREPLAYABLE'));
      }
    });

    it('is redacted first and encrypted then', async () => {
      const key = freshKey();
      const seen: string[] = [];
      const codec: IdempotencyCodec = {
        encode: (payload) => (seen.push(payload.toString('latin1')), payload),
        decode: (encoded) => encoded,
      };
      await run(key, secret, { codec, beforeStore: () => 'redacted' });
      expect(seen).toEqual([expect.stringContaining('redacted')]);
      expect(seen[0]).not.toContain('4111');
    });
  });

  it('options that are none are told at once', async () => {
    for (const options of [{ codec: {} }, { codec: 'gzip' }, { codec: null }, { beforeStore: 1 }]) {
      await expect(run(freshKey(), 'never', options as never)).rejects.toEqual(code('LOCK_CONFIG'));
    }
  });
});
