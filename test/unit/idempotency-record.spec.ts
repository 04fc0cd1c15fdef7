import { readHeaderKey } from '../../lib/idempotency/header-key.js';
import { resolveIdempotentOptions } from '../../lib/idempotency/idempotency-options.js';
import type { IdempotentOptions } from '../../lib/idempotency/idempotency.js';
import { decodeReply, encodeReply } from '../../lib/idempotency/record-codec.js';
import { headerRecord, isRecordKey, keyRecord } from '../../lib/idempotency/record-key.js';
import { bodyValue, storeBody } from '../../lib/idempotency/stored-body.js';
import { tombstone, type StoredBody, type StoredReply } from '../../lib/idempotency/stored-reply.js';
import { LockConfigError } from '../../lib/errors.js';

describe('record keys', () => {
  const place = { method: 'POST', route: '/orders/:id', params: { id: '1' } };

  it('I11: another scope, key, route, method, params, version or namespace is another record', () => {
    const keys = [
      keyRecord('', { key: 'k' }),
      keyRecord('', { key: 'k', scope: '' }),
      keyRecord('', { key: 'k', scope: 'u' }),
      keyRecord('', { key: 'uk' }),
      headerRecord('', { header: 'k', place }),
      headerRecord('', { header: 'k', place, scope: 'u' }),
      headerRecord('', { header: 'k', place: { ...place, method: 'PUT' } }),
      headerRecord('', { header: 'k', place: { ...place, route: '/refunds/:id' } }),
      headerRecord('', { header: 'k', place: { ...place, params: { id: '2' } } }),
      headerRecord('', { header: 'k', place: { ...place, params: { id: '1', x: '' } } }),
      headerRecord('', { header: 'k', place: { ...place, variant: '["version","2"]' } }),
      headerRecord('', { header: 'k', place: { namespace: 'orders' } }),
      headerRecord('', { header: 'k', place: { namespace: 'refunds' } }),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('no two different lists of parts give one record, wherever a separator stands', () => {
    const lists: Array<[string, string]> = [
      ['a:b', 'c'],
      ['a', 'b:c'],
      ['a', '1:b'],
      ['a1:', 'b'],
      ['', 'a1:b'],
    ];
    const keys = lists.map(([scope, key]) => keyRecord('', { scope, key }));
    expect(new Set(keys).size).toBe(keys.length);
    const byParams = [{ a: '1', b: '2' }, { a: '1b', '2': '' }, { a: ['x', 'y'] }, { a: 'x,y' }];
    const routed = byParams.map((params) => headerRecord('', { header: 'k', place: { ...place, params } }));
    expect(new Set(routed).size).toBe(routed.length);
  });

  it('the order of params is nothing, and no personal data stands in the name', () => {
    const one = headerRecord('p:', {
      header: 'me@example.com',
      scope: 'Bob',
      place: { ...place, params: { a: '1', b: '2' } },
    });
    const two = headerRecord('p:', {
      header: 'me@example.com',
      scope: 'Bob',
      place: { ...place, params: { b: '2', a: '1' } },
    });
    expect(one).toBe(two);
    expect(one).toMatch(/^p:idem:POST:\/orders\/:id:[0-9a-f]{64}$/);
    expect(isRecordKey('p:', one)).toBe(true);
    expect(isRecordKey('', keyRecord('', { key: 'k' }))).toBe(true);
    expect(isRecordKey('', 'idem:key:k')).toBe(false);
  });

  it('two keys that UTF-8 would make one are refused', () => {
    expect(() => keyRecord('', { key: '\ud800' })).toThrow(
      expect.objectContaining({ code: 'IDEMPOTENCY_KEY' }),
    );
  });
});

describe('the header', () => {
  const read = (...values: string[]) => readHeaderKey('Idempotency-Key', values);
  const refused = expect.objectContaining({ code: 'IDEMPOTENCY_KEY' });

  it('I19: quotes of a structured-field string are taken off, escapes inside them too', () => {
    expect(read('"8e03978e"')).toBe('8e03978e');
    expect(read('8e03978e')).toBe('8e03978e');
    expect(read('"a\\"b\\\\c"')).toBe('a"b\\c');
  });

  it('I19: an empty one is a missing one', () => {
    expect([read(), read(''), read('  '), read('""')]).toEqual([undefined, undefined, undefined, undefined]);
  });

  it('I19: 255 characters are accepted, 256 are not, quotes not counted', () => {
    expect(read('x'.repeat(255))).toHaveLength(255);
    expect(read(`"${'x'.repeat(255)}"`)).toHaveLength(255);
    expect(() => read('x'.repeat(256))).toThrow(refused);
  });

  it.each([
    ['sent twice', ['a', 'a']],
    ['with a space', ['a b']],
    ['no ASCII', ['ä']],
    ['a control character', ['a\x01']],
    ['a lone quote', ['"']],
    ['an open string', ['"abc']],
    ['more than a string', ['"abc";x=1']],
    ['a bad escape', ['"a\\b"']],
  ])('I19: %s is refused', (_what, values) => {
    expect(() => read(...values)).toThrow(refused);
  });
});

describe('the payload', () => {
  const bodies: StoredBody[] = [
    { kind: 'undefined' },
    { kind: 'json', json: '{"a":"ä","b":[1,null]}' },
    { kind: 'json', json: '"1970"', boxed: true },
    { kind: 'number', text: 'NaN' },
    { kind: 'bytes', bytes: Buffer.from([0, 255, 1]), view: 'Buffer' },
    { kind: 'file', bytes: Buffer.alloc(0), type: 'text/csv', disposition: 'attachment' },
  ];
  const replies: StoredReply[] = [
    ...bodies.map((body): StoredReply => ({
      kind: 'value',
      body,
      status: 201,
      headers: { link: ['a', 'b'] },
    })),
    { kind: 'value', body: { kind: 'json', json: 'null' } },
    {
      kind: 'error',
      status: 402,
      response: '{"a":1}',
      message: 'm',
      type: 'HttpException',
      name: 'Declined',
    },
    tombstone('a stream'),
  ];

  it.each(replies.map((reply) => [JSON.stringify(reply), reply] as const))(
    '%s comes back as it was',
    (_text, reply) => {
      expect(decodeReply(encodeReply(reply))).toEqual(reply);
    },
  );

  it('I17: every cut, every changed byte, an unknown version and nothing at all are seen as damage', () => {
    const payload = encodeReply(replies[1]!);
    for (let index = 0; index < payload.length; index++) {
      expect(decodeReply(payload.subarray(0, index))).toBeNull();
      const changed = Buffer.from(payload);
      changed[index]! ^= 1;
      expect(decodeReply(changed)).toBeNull();
    }
    expect(decodeReply(Buffer.from('garbage that is long enough to be a payload'))).toBeNull();
  });
});

describe('stored values', () => {
  const again = (value: unknown): unknown => {
    const stored = storeBody(value, 1_000);
    if (!('kind' in stored)) throw new Error(stored.reason);
    return bodyValue(stored);
  };

  it('I2: undefined, null, 0, false and the empty string come back as themselves', () => {
    expect([undefined, null, 0, false, '', NaN, Infinity].map(again)).toEqual([
      undefined,
      null,
      0,
      false,
      '',
      NaN,
      Infinity,
    ]);
  });

  it('bytes come back as bytes, a Date as its text', () => {
    expect(again(Buffer.from([1, 2]))).toEqual(Buffer.from([1, 2]));
    expect(Buffer.isBuffer(again(new Uint8Array([1])))).toBe(false);
    expect(again({ at: new Date(0) })).toEqual({ at: '1970-01-01T00:00:00.000Z' });
  });

  it('I6, I7: what cannot be given again says why', () => {
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    async function* stream(): AsyncGenerator<number> {
      yield 1;
    }
    const values = [
      1n,
      { n: 1n },
      circular,
      stream(),
      new Error('x'),
      () => 1,
      Symbol('s'),
      new Float64Array(1),
      'x'.repeat(1_001),
    ];
    for (const value of values) expect(storeBody(value, 1_000)).toEqual({ reason: expect.any(String) });
  });
});

describe('options', () => {
  const faultsOf = (options: unknown): string[] => {
    try {
      resolveIdempotentOptions(options as IdempotentOptions);
      return [];
    } catch (error) {
      return (error as LockConfigError).faults.map(({ path }) => path);
    }
  };

  it('are filled in: a header is optional and compared, a key required and not compared', () => {
    expect(resolveIdempotentOptions({})).toMatchObject({
      key: { kind: 'header', header: 'Idempotency-Key' },
      required: false,
      fingerprint: 'bodyUnlessMultipart',
      ttlMs: 86_400_000,
      leaseMs: 30_000,
      maxBodyBytes: 262_144,
      onError: 'release',
    });
    expect(resolveIdempotentOptions({ key: 'wechat:<body.id>' })).toMatchObject({
      required: true,
      fingerprint: false,
    });
  });

  it('that are wrong are all told at once, each with its path', () => {
    expect(
      faultsOf({
        ttl: 'soon',
        lease: 10,
        onConcurrent: 'queue',
        onError: 'ignore',
        fingerprint: [],
        maxBodyBytes: -1,
        replayHeaders: ['X-RateLimit-Remaining'],
        header: 'a b',
        required: 'yes',
        inFlightReply: 1,
        instance: '',
        scope: 1,
        headr: 'x',
      }).sort(),
    ).toEqual([
      'fingerprint',
      'header',
      'headr',
      'inFlightReply',
      'instance',
      'lease',
      'maxBodyBytes',
      'onConcurrent',
      'onError',
      'replayHeaders',
      'required',
      'scope',
      'ttl',
    ]);
  });

  it('header and key exclude each other', () => {
    expect(faultsOf({ header: 'X-Request-Id', key: 'k:<body.id>' })).toEqual(['header']);
    expect(faultsOf([])).toEqual(['']);
  });
});
