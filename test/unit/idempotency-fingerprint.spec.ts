import { createHash } from 'node:crypto';
import type { CallContext } from '../../lib/call/call-context.js';
import { canonicalHash } from '../../lib/idempotency/canonical-hash.js';
import { fingerprintOf } from '../../lib/idempotency/fingerprint.js';
import { resolveIdempotentOptions } from '../../lib/idempotency/idempotency-options.js';
import { sortInSlices } from '../../lib/idempotency/sliced-sort.js';

function call(body: unknown): CallContext {
  return { args: [], params: {}, query: {}, body, headers: {}, user: undefined, data: undefined };
}

describe('the fingerprint of a call', () => {
  it('I9: the order of fields is nothing, the order of a list is something', () => {
    expect(canonicalHash({ a: 1, b: { c: 2, d: [1, 2] } })).toBe(
      canonicalHash({ b: { d: [1, 2], c: 2 }, a: 1 }),
    );
    expect(canonicalHash([1, 2])).not.toBe(canonicalHash([2, 1]));
  });

  it('different requests never look the same', () => {
    const values = [
      undefined,
      null,
      '',
      'null',
      0,
      '0',
      false,
      [],
      {},
      [undefined],
      [[]],
      { a: undefined, b: 1 },
      { a: null, b: 1 },
      'undefined',
      1n,
      '1n',
      Buffer.from('a'),
      'a',
      [1, [2]],
      [[1], 2],
      { a: '1,"b":2' },
    ];
    expect(new Set(values.map(canonicalHash)).size).toBe(values.length);
    expect(canonicalHash({ a: undefined, b: 1 })).toBe(canonicalHash({ b: 1 }));
    expect(canonicalHash(new Date(0))).toBe(canonicalHash('1970-01-01T00:00:00.000Z'));
  });

  it('true compares the body, a list its fields, a function what it returns, false nothing', () => {
    const body = { id: 'n1', order: { id: 'o1' }, notify_time: 'now', 'a.b': 1 };
    const other = { ...body, notify_time: 'later' };
    expect(fingerprintOf(true, call(body))).not.toBe(fingerprintOf(true, call(other)));
    expect(fingerprintOf(['id', 'order.id', 'a.b'], call(body))).toBe(
      fingerprintOf(['id', 'order.id', 'a.b'], call(other)),
    );
    expect(fingerprintOf(['order.id'], call(body))).not.toBe(
      fingerprintOf(['order.id'], call({ order: { id: 'o2' } })),
    );
    expect(fingerprintOf(['constructor'], call({}))).toBe(fingerprintOf(['constructor'], call({ x: 1 })));
    expect(fingerprintOf((of) => of.body.id, call(body))).toBe(
      fingerprintOf((of) => of.body.id, call(other)),
    );
    expect(fingerprintOf(false, call(body))).toBeNull();
  });

  it('a body that nests without end is refused and exhausts nothing', () => {
    const deep: unknown = JSON.parse(`${'['.repeat(20_000)}${']'.repeat(20_000)}`);
    expect(() => canonicalHash(deep)).toThrow(expect.objectContaining({ code: 'IDEMPOTENCY_KEY' }));
  });

  it('a Map or a Set is what it holds, not an empty object', () => {
    expect(canonicalHash(new Map([['a', 1]]))).not.toBe(canonicalHash(new Map([['a', 2]])));
    expect(canonicalHash(new Set([1]))).not.toBe(canonicalHash([1]));
    expect(canonicalHash(new Set([1]))).not.toBe(canonicalHash({}));
  });

  it('a function may give a promise of what is compared', async () => {
    const of = (id: number) => fingerprintOf(async ({ body }) => body.id, call({ id }));
    expect(await of(1)).toBe(await of(1));
    expect(await of(1)).not.toBe(await of(2));
    await expect(fingerprintOf(() => Promise.reject(new Error('no session')), call({}))).rejects.toThrow(
      'no session',
    );
  });

  it('a multipart form is compared only when told', () => {
    const form = (body: unknown): CallContext => ({
      ...call(body),
      headers: { 'content-type': 'multipart/form-data; boundary=x' },
    });
    const byDefault = resolveIdempotentOptions({}).fingerprint;
    expect(fingerprintOf(byDefault, form({ a: 1 }))).toBeNull();
    expect(fingerprintOf(byDefault, call({ a: 1 }))).toBe(fingerprintOf(true, call({ a: 1 })));
    const told = resolveIdempotentOptions({ fingerprint: true }).fingerprint;
    expect(fingerprintOf(told, form({ a: 1 }))).not.toBe(fingerprintOf(told, form({ a: 2 })));
    const field = resolveIdempotentOptions({ fingerprint: ['a'] }).fingerprint;
    expect(fingerprintOf(field, form({ a: 1 }))).not.toBe(fingerprintOf(field, form({ a: 2 })));
  });
});

describe('a large body', () => {
  const megabytes = (value: unknown): number => JSON.stringify(value).length / 1_048_576;
  const items = Array.from({ length: 25_000 }, (_, id) => ({
    name: `item "${id}" \u00e9`,
    id,
    tags: ['a', null, true],
    price: { currency: 'EUR', amount: id / 100 },
  }));
  const turned = items.map(({ name, id, tags, price }) => ({
    price: { amount: price.amount, currency: price.currency },
    tags,
    id,
    name,
  }));
  const manyFields = (from: number) =>
    Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`field ${(at + from) % 20_000}`, 1]));
  const text = '\u{1F4B6}"\n\ud800x'.repeat(200_000);
  const nested = (): unknown => {
    let at: unknown = items;
    for (let depth = 0; depth < 400; depth++) at = [at];
    return at;
  };

  it('has the same fingerprint whatever the order of its fields, as a small one has', async () => {
    expect(megabytes(items)).toBeGreaterThan(2);
    expect(await canonicalHash(items)).toBe(await canonicalHash(turned));
    expect(await canonicalHash(items)).not.toBe(await canonicalHash(items.slice(1)));
    expect(await canonicalHash(manyFields(0))).toBe(await canonicalHash(manyFields(7_777)));
    expect(await canonicalHash(text)).not.toBe(await canonicalHash(`${text}x`));
    expect(await canonicalHash(Buffer.alloc(3_000_000))).not.toBe(
      await canonicalHash(Buffer.alloc(3_000_001)),
    );
    expect(await canonicalHash(nested())).toHaveLength(64);
  });

  it('a text that is hashed in pieces is the text, wherever a piece ends', async () => {
    const pairs = '\u{1F4B6}'.repeat(40_000);
    const whole = createHash('sha256')
      .update(JSON.stringify(`x${pairs}`))
      .digest('hex');
    expect(await canonicalHash(`x${pairs}`)).toBe(whole);
    const even = createHash('sha256').update(JSON.stringify(pairs)).digest('hex');
    expect(await canonicalHash(pairs)).toBe(even);
  });

  it('small ones are hashed at once, large ones leave the event loop to others in between', async () => {
    expect(typeof canonicalHash(items.slice(0, 100))).toBe('string');
    let turns = 0;
    let done = false;
    const count = (): void => {
      turns++;
      if (!done) setImmediate(count);
    };
    const hashing = canonicalHash(items);
    expect(hashing).toBeInstanceOf(Promise);
    count();
    await hashing;
    done = true;
    expect(turns).toBeGreaterThan(2);
  });

  it('sorting in slices sorts', () => {
    const texts = Array.from({ length: 12_345 }, (_, at) => `${(at * 7_919) % 12_345}\u00e9${at % 3}`);
    const sorting = sortInSlices(texts, 100);
    let steps = 0;
    let sorted = sorting.next();
    for (; !sorted.done; sorted = sorting.next()) steps++;
    expect(sorted.value).toEqual([...texts].sort());
    expect(steps).toBeGreaterThan(120);
    expect(sortInSlices([], 100).next()).toEqual({ done: true, value: [] });
  });
});
