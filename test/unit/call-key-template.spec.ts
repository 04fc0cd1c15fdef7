import type { CallContext } from '../../lib/call/call-context.js';
import { LOCK_PARAMS } from '../../lib/call/call-context.js';
import { fillKeyTemplate, parseKeyTemplate, type ParsedKeyTemplate } from '../../lib/call/key-template.js';
import { MAX_KEY_BYTES } from '../../lib/call/long-key.js';
import { isRedisLockError, type ConfigFault } from '../../lib/errors.js';
import { hasHashTag, lockKey } from '../../lib/lock/lock-key.js';

const call = (fields: Partial<CallContext> = {}): CallContext => ({
  args: [],
  params: {},
  query: {},
  body: undefined,
  headers: {},
  user: undefined,
  data: undefined,
  ...fields,
});

function parse(text: string): ParsedKeyTemplate {
  const faults: ConfigFault[] = [];
  const parsed = parseKeyTemplate(text, 'X.y', faults);
  if (!parsed) throw new Error(faults.map(({ message }) => message).join());
  return parsed;
}

const fill = (text: string, fields: Partial<CallContext>): string =>
  fillKeyTemplate(parse(text), call(fields));

function refused(text: string, fields: Partial<CallContext>): string {
  try {
    return `filled: ${fill(text, fields)}`;
  } catch (error) {
    return isRedisLockError(error) ? error.code : String(error);
  }
}

function faultsOf(text: unknown): string[] {
  const faults: ConfigFault[] = [];
  parseKeyTemplate(text, 'OrdersService.pay', faults);
  return faults.map(({ message }) => message);
}

describe('filling a key template', () => {
  it.each([
    ['<params.id>', { params: { id: '1' } }],
    ['<query.id>', { query: { id: '1' } }],
    ['<body.order.id>', { body: { order: { id: 1 } } }],
    ['<headers.X-Tenant>', { headers: { 'x-tenant': '1' } }],
    ['<user.id>', { user: { id: 1n } }],
    ['<data.id>', { data: { id: '1' } }],
    ['<args.0.id>', { args: [{ id: '1' }] }],
    ['<args.1>', { args: [undefined, 1] }],
    ['<id>', { params: { id: '1' } }],
    ['<id>', { query: { id: '1' } }],
    ['<id>', { body: { id: 1 } }],
    ['<id>', { data: { id: 1 } }],
    ['<id>', { [LOCK_PARAMS]: { id: 1 } }],
    ['<order.id>', { body: { order: { id: 1 } } }],
  ] satisfies Array<[string, Partial<CallContext>]>)('looks %s up where it says', (text, fields) => {
    expect(fill(`lock:${text}`, fields)).toBe('lock:1');
  });

  it('looks an explicit path up nowhere else', () => {
    expect(refused('lock:<params.id>', { query: { id: '1' }, body: { id: '1' } })).toBe('LOCK_KEY');
    expect(refused('lock:<user.id>', { params: { id: '1' } })).toBe('LOCK_KEY');
  });

  it('keeps text without a placeholder as it is', () => {
    expect(fill('lock:cron:nightly', {})).toBe('lock:cron:nightly');
  });

  it.each([
    ['text', 'o-1', 'o-1'],
    ['a number', 7, '7'],
    ['zero', 0, '0'],
    ['a bigint', 12345678901234567890n, '12345678901234567890'],
    ['true', true, 'true'],
    ['false', false, 'false'],
  ])('takes %s', (_, value, text) => {
    expect(fill('lock:<body.v>', { body: { v: value } })).toBe(`lock:${text}`);
  });

  it.each([
    ['undefined', undefined],
    ['null', null],
    ['empty text', ''],
    ['an object', { id: 1 }],
    ['an array', ['o1']],
    ['NaN', NaN],
    ['Infinity', Infinity],
    ['a function', () => 'o1'],
    ['a symbol', Symbol('o1')],
    ['a Date', new Date()],
    ['half a surrogate pair', '\ud800'],
  ])('N6, N8: refuses %s, and never builds a key of it', (_, value) => {
    for (const text of ['lock:order:<orderId>', 'lock:order:<body.orderId>']) {
      expect(refused(text, { body: { orderId: value } })).toBe('LOCK_KEY');
    }
  });

  it('N6: refuses a missing value, also when there is no body at all', () => {
    expect(refused('lock:order:<orderId>', {})).toBe('LOCK_KEY');
    expect(refused('lock:order:<body.orderId>', { body: null })).toBe('LOCK_KEY');
    expect(refused('lock:order:<body.orderId>', { body: 'text' })).toBe('LOCK_KEY');
  });

  it.each(['a:b', '{x}', 'a}b', '<id>', '%3A', 'a b', 'a\nb', '\u0000', '\u00a0', '\u3000', '\u0085'])(
    'N6: encodes what could be taken for a part of the template: %j',
    (value) => {
      const key = fill('lock:order:<id>', { params: { id: value } });
      expect(key).toMatch(/^lock:order:[^:<>{}\s\p{Cc}]+$/u);
      expect(key).toContain('%');
      expect(() => lockKey(key)).not.toThrow();
    },
  );

  it('leaves other Unicode readable', () => {
    expect(fill('lock:<id>', { params: { id: '订单-ü' } })).toBe('lock:订单-ü');
  });

  it('N7: gives different lists of values different keys, whatever they hold', () => {
    const parts = [
      'a',
      'b',
      'a:b',
      'b:c',
      'c',
      ':',
      '::',
      '%',
      '%3A',
      '3A',
      '25',
      '%25',
      '{',
      '}',
      ' ',
      'a b',
      '<x>',
    ];
    for (const text of ['lock:<args.0>:<args.1>', 'lock:<args.0> <args.1>', 'lock:<args.0>}-{<args.1>:']) {
      const keys = new Map<string, string>();
      for (const x of parts) {
        for (const y of parts) {
          const key = fill(text, { args: [x, y] });
          expect(keys.get(key)).toBeUndefined();
          keys.set(key, JSON.stringify([x, y]));
        }
      }
    }
  });

  it('N21: refuses a bare name that is found with different text', () => {
    const text = 'lock:<orderId>';
    expect(refused(text, { body: { orderId: 'o1' }, query: { orderId: 'x' } })).toBe('LOCK_KEY');
    expect(refused(text, { params: { orderId: 'o1' }, body: { orderId: 'x' } })).toBe('LOCK_KEY');
    expect(refused(text, { params: { orderId: 'o1' }, query: { orderId: '' } })).toBe('LOCK_KEY');
    expect(refused(text, { params: { orderId: 'o1' }, query: { orderId: ['o1'] } })).toBe('LOCK_KEY');
    expect(refused(text, { data: { orderId: 'o1' }, [LOCK_PARAMS]: { orderId: 'o2' } })).toBe('LOCK_KEY');
  });

  it('N21: takes a bare name that is found twice with the same text', () => {
    expect(fill('lock:<id>', { params: { id: '1' }, query: { id: '1' }, body: { id: 1 } })).toBe('lock:1');
  });

  it.each([
    '<body.constructor.name>',
    '<body.__proto__.x>',
    '<body.toString>',
    '<constructor>',
    '<hasOwnProperty>',
  ])('N22: %s finds own properties only', (text) => {
    expect(refused(`lock:${text}`, { body: { id: 1 } })).toBe('LOCK_KEY');
  });

  it('does not look into text, or at a getter of a prototype', () => {
    class Order {
      get id(): string {
        return '1';
      }
    }
    expect(refused('lock:<body.name.length>', { body: { name: 'abc' } })).toBe('LOCK_KEY');
    expect(refused('lock:<args.0.id>', { args: [new Order()] })).toBe('LOCK_KEY');
  });

  it('says which placeholder failed, and not what its value was', () => {
    expect(() => fill('lock:<body.card>', { body: { card: { number: '4111' } } })).toThrow(
      /<body\.card>.*object/,
    );
    expect(() => fill('lock:<body.card>', { body: { card: { number: '4111' } } })).not.toThrow(/4111/);
  });
});

describe('a long key', () => {
  const key = (id: string, text = 'lock:order:<id>'): string => fill(text, { params: { id } });

  it('N6: of 600 bytes ends in a hash and keeps its beginning', () => {
    const long = key('x'.repeat(600));
    expect(Buffer.byteLength(long)).toBeLessThanOrEqual(MAX_KEY_BYTES);
    expect(long).toMatch(/^lock:order:x+<sha256>[0-9a-f]{64}$/);
  });

  it('is kept whole up to the limit', () => {
    const id = 'x'.repeat(MAX_KEY_BYTES - 'lock:order:'.length);
    expect(key(id)).toBe(`lock:order:${id}`);
    expect(key(`${id}x`)).toMatch(/<sha256>/);
  });

  it('differs where only the hashed rest differs', () => {
    const same = 'x'.repeat(600);
    expect(key(`${same}1`)).not.toBe(key(`${same}2`));
  });

  it('cannot be written as a short key of another caller', () => {
    const long = key('x'.repeat(600));
    const [head, hash] = long.slice('lock:order:'.length).split('<sha256>');
    expect(key(`${head}<sha256>${hash}`)).not.toBe(long);
    expect(fill('lock:order:<args.0>:<args.1>', { args: [head, hash] })).not.toBe(long);
  });

  it('never cuts inside a character', () => {
    for (let shift = 0; shift < 4; shift += 1) {
      expect(key('x'.repeat(shift) + '单'.repeat(300))).not.toContain('\ufffd');
    }
  });

  it('keeps a hash tag closed when the cut falls inside it', () => {
    const long = key('x'.repeat(600), 'lock:{<id>}:rest');
    expect(Buffer.byteLength(long)).toBeLessThanOrEqual(MAX_KEY_BYTES);
    expect(hasHashTag(long)).toBe(true);
    expect(long.endsWith('}')).toBe(true);
  });
});

describe('checking a key template', () => {
  it.each(['lock:<a><b>', 'lock:<a>-<b>', 'lock:<a>%<b>', 'lock:<a>.<b>:<c>x<d>'])(
    'N22: refuses %s: two calls could get one key',
    (text) => {
      expect(faultsOf(text).join()).toMatch(/must stand between/);
    },
  );

  it('N22: suggests <word> for {word}', () => {
    expect(faultsOf('lock:{orderId}').join()).toContain('<orderId>');
    expect(faultsOf('lock:${order.id}').join()).toContain('<order.id>');
  });

  it('leaves braces alone beside a placeholder: they are a hash tag', () => {
    expect(fill('lock:{order}:<id>', { params: { id: '1' } })).toBe('lock:{order}:1');
    expect(fill('lock:{<id>}:x', { params: { id: '1' } })).toBe('lock:{1}:x');
  });

  it.each([
    'lock:<>',
    'lock:<a',
    'lock:a>',
    'lock:<a<b>>',
    'lock:<a b>',
    'lock:<a.>',
    'lock:<.a>',
    'lock:<a:b>',
  ])('refuses %s: it is no placeholder', (text) => {
    expect(faultsOf(text).length).toBeGreaterThan(0);
  });

  it.each([
    ['nothing', ''],
    ['a number', 7],
    ['nothing at all', undefined],
    ['an array', ['lock']],
  ])('refuses %s as a template', (_, text) => {
    expect(faultsOf(text).length).toBeGreaterThan(0);
  });

  it('lists every fault at once', () => {
    expect(faultsOf('lock:<a b><c>-<d>').length).toBeGreaterThanOrEqual(3);
  });
});
