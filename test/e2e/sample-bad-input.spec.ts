import { LockService } from 'nestjs-redis-lock';
import {
  encrypted,
  signedNotice,
  signedOpenApi,
  signedStripe,
  signedWechat,
  stripeBody,
  wechatBody,
  type SignedMessage,
} from '../../sample-app/src/payments/sample-provider.js';
import { DATABASES, MERCHANT, PRICE, Sample, notice, type Reply } from './sample-fixture.js';

describe.each(DATABASES)('the sample on %s: bad input', (where) => {
  let sample: Sample;

  beforeAll(async () => {
    sample = await Sample.start(where);
    await sample.article('goods', 10);
    await sample.pendingOrder('open');
    await sample.pendingOrder('gone');
    await sample.request('POST', '/orders/gone/cancel');
    await sample.pendingOrder('paid');
    await sample.notify(notice('paid'));
  });

  afterAll(() => sample.stop());

  /** Everything that counts, in the database and in Redis. */
  async function state(): Promise<unknown> {
    const [stock, merchants] = [await sample.get('/inventory'), await sample.get('/merchants')];
    const tables = await sample.database.run((db) =>
      Promise.all([
        db.selectFrom('orders').select(['id', 'status', 'paid_at', 'cancelled_at']).orderBy('id').execute(),
        db.selectFrom('payments').selectAll().orderBy('transaction_id').execute(),
        db.selectFrom('journal').selectAll().orderBy('operation_id').execute(),
        db.selectFrom('refused_writes').selectAll().execute(),
        db.selectFrom('reconciliations').selectAll().execute(),
      ]),
    );
    return { stock: stock.json, merchants: merchants.json, tables };
  }

  /** A 4xx whose body names the fault and its code; nothing changes. */
  async function expectRefused(
    send: () => Promise<Reply>,
    status: number,
    code: string,
    text = '',
  ): Promise<void> {
    const before = await state();
    const reply = await send();
    expect({ status: reply.status, body: reply.json }).toMatchObject({
      status,
      body: { statusCode: status, code, message: expect.anything() },
    });
    expect(JSON.stringify(reply.json.message)).toContain(text);
    expect(await state()).toEqual(before);
  }

  let requests = 0;
  const order = (body: object): Promise<Reply> =>
    sample.post('/orders', body, { 'X-Request-Id': `bad-${(requests += 1)}` });
  const raw = (path: string, body: string, headers: Record<string, string> = {}): Promise<Reply> =>
    sample.send('POST', path, body, { 'content-type': 'application/json', ...headers });

  it.each<[string, string, (() => Promise<Reply>) | string]>([
    ['order', 'UNKNOWN_ORDER', '/orders/nothing/cancel'],
    ['order', 'UNKNOWN_ORDER', '/orders/nothing/pay'],
    ['order', 'UNKNOWN_ORDER', '/mini-program/orders/nothing/pay'],
    ['order', 'UNKNOWN_ORDER', () => sample.notify(notice('nothing'))],
    ['order', 'UNKNOWN_ORDER', () => sample.notify(notice('nothing', { provider: 'stripe' }))],
    [
      'order',
      'UNKNOWN_ORDER',
      () => sample.notify({ ...notice('nothing', { provider: 'open-api' }), merchantId: MERCHANT }),
    ],
    ['SKU', 'UNKNOWN_SKU', () => order({ sku: 'nothing', quantity: 1 })],
    [
      'SKU',
      'UNKNOWN_SKU',
      () => sample.post('/inventory/nothing/deduct', { quantity: 1 }, { 'X-Request-Id': 'nothing' }),
    ],
    ['SKU', 'UNKNOWN_SKU', () => sample.post('/inventory/nothing/flash-sale', { buyer: 'ann' })],
    [
      'merchant',
      'UNKNOWN_MERCHANT',
      () => sample.post('/merchants/nothing/top-up', { amount: 1 }, { 'X-Request-Id': 'nothing' }),
    ],
    ['page', 'NOT_FOUND', '/nothing'],
  ])('an unknown %s is a 404 %s', async (_, code, send) => {
    const call = typeof send === 'string' ? () => sample.request('POST', send) : send;
    await expectRefused(call, 404, code, 'nothing');
  });

  it('another merchant’s order is unknown to the open API', async () => {
    const forged = { ...notice('open', { provider: 'open-api' }), merchantId: 'merchant-2' };
    await expectRefused(() => sample.notify(forged), 404, 'UNKNOWN_ORDER', 'open');
  });

  it.each(['wechat', 'stripe', 'open-api'] as const)('a wrong amount of %s is a 422', async (provider) => {
    const wrong = { ...notice('open', { provider, amount: PRICE - 1 }), merchantId: MERCHANT };
    await expectRefused(() => sample.notify(wrong), 422, 'WRONG_AMOUNT', String(PRICE));
  });

  describe.each(['wechat', 'stripe', 'open-api'] as const)('a signature of %s', (provider) => {
    const signed = (timestamp?: number): SignedMessage =>
      signedNotice(
        { ...notice('open', { provider }), merchantId: MERCHANT },
        timestamp === undefined ? {} : { timestamp },
      );

    it.each<[string, () => SignedMessage]>([
      ['that is missing', () => ({ ...signed(), headers: { 'Content-Type': 'application/json' } })],
      ['over another body', () => ({ ...signed(), body: signed().body.replace('{', '{ ') })],
      ['that is too old', () => signed(Math.floor(Date.now() / 1_000) - 400)],
      [
        'made with another key',
        () => {
          const message = signed();
          const headers = Object.entries(message.headers).map(([name, value]) => [
            name,
            /signature/i.test(name) ? value.replaceAll(/[0-9a-f]{64}/g, 'a'.repeat(64)) : value,
          ]);
          return { ...message, headers: Object.fromEntries(headers) };
        },
      ],
    ])('%s is a 401, and leaves no record', async (_, message) => {
      await expectRefused(() => sample.sendSigned(message()), 401, 'WRONG_SIGNATURE');
      expect(await sample.redis.client().keys('idem:*')).not.toContainEqual(expect.stringContaining('open'));
    });
  });

  it('a resource that cannot be decrypted is a 400', async () => {
    const body = { ...wechatBody(notice('open')), resource: { ...encrypted({}), ciphertext: 'AAAA' } };
    await expectRefused(() => sample.sendSigned(signedWechat(body)), 400, 'UNREADABLE_RESOURCE', 'resource');
  });

  const stripe = (change: (body: any) => void): SignedMessage => {
    const body = stripeBody(notice('open')) as any;
    change(body);
    return signedStripe(body);
  };

  it.each<[string, string, string, () => SignedMessage]>([
    ['no id', 'IDEMPOTENCY_KEY', 'id', () => stripe((body) => delete body.id)],
    ['an id that is no text', 'IDEMPOTENCY_KEY', 'id', () => stripe((body) => (body.id = { $ne: '' }))],
    ['no order', 'LOCK_KEY', 'order_id', () => stripe((body) => delete body.data.object.metadata)],
    [
      'a list of orders',
      'LOCK_KEY',
      'order_id',
      () => stripe((body) => (body.data.object.metadata.order_id = ['a'])),
    ],
    ['another type', 'INVALID_INPUT', 'type', () => stripe((body) => (body.type = 'charge.refunded'))],
    [
      'a negative amount',
      'INVALID_INPUT',
      'amount_received',
      () => stripe((body) => (body.data.object.amount_received = -5)),
    ],
    [
      'an amount as text',
      'INVALID_INPUT',
      'amount_received',
      () => stripe((body) => (body.data.object.amount_received = '1990')),
    ],
    ['no transaction', 'INVALID_INPUT', 'id', () => stripe((body) => delete body.data.object.id)],
    ['a list for a body', 'IDEMPOTENCY_KEY', 'id', () => signedStripe([1])],
    [
      'another state',
      'INVALID_INPUT',
      'trade_state',
      () =>
        signedWechat({
          ...wechatBody(notice('open')),
          resource: encrypted({
            out_trade_no: 'open',
            transaction_id: 't',
            trade_state: 'CLOSED',
            amount: { total: PRICE },
          }),
        }),
    ],
    [
      'no amount',
      'INVALID_INPUT',
      'amount',
      () => signedOpenApi({ orderId: 'open', merchantId: MERCHANT }, { transactionId: 't' }),
    ],
  ])('a signed callback with %s is a 400 %s that names the field', async (_, code, field, message) => {
    const send = (): Promise<Reply> => {
      const { path, body, headers } = message();
      return sample.send('POST', path, body, { 'X-Request-Id': `bad-${(requests += 1)}`, ...headers });
    };
    await expectRefused(send, 400, code, field);
  });

  it.each(['wechat', 'stripe', 'open-api'] as const)(
    'a callback of %s for a cancelled order is a 409',
    async (provider) => {
      const late = { ...notice('gone', { provider }), merchantId: MERCHANT };
      await expectRefused(() => sample.notify(late), 409, 'ORDER_CANCELLED', 'gone');
    },
  );

  it('what is paid or cancelled cannot be paid again', async () => {
    await expectRefused(() => sample.request('POST', '/orders/gone/pay'), 409, 'ORDER_CANCELLED');
    await expectRefused(() => sample.request('POST', '/orders/paid/pay'), 409, 'ORDER_PAID');
    const other = notice('paid', { notificationId: 'n-other', transactionId: 't-other' });
    await expectRefused(() => sample.notify(other), 409, 'OTHER_PAYMENT', 't-other');
  });

  it.each([
    ['/orders', 'MALFORMED_BODY', '{"sku": '],
    ['/orders', 'MALFORMED_BODY', 'nonsense'],
    ['/payments/wechat', 'MALFORMED_BODY', '{'],
    ['/payments/stripe', 'MALFORMED_BODY', '"'],
  ])('%s with a body that is no JSON is a 400 %s', async (path, code, body) => {
    await expectRefused(() => raw(path, body, { 'X-Request-Id': 'malformed' }), 400, code);
  });

  it.each([
    '/orders',
    '/payments/wechat',
    '/payments/stripe',
    '/open-api/orders/open/pay',
    '/reconciliation',
  ])('%s with an oversized body is a 413', async (path) => {
    const body = JSON.stringify({ padding: 'x'.repeat(200_000) });
    await expectRefused(() => raw(path, body, { 'X-Request-Id': 'large' }), 413, 'BODY_TOO_LARGE');
  });

  it('a body in an unknown encoding is a 415', async () => {
    await expectRefused(
      () => raw('/orders', '{}', { 'content-encoding': 'secret' }),
      415,
      'UNSUPPORTED_BODY',
    );
  });

  it.each([-1, 0, 1.5, '2', null, 1_001, Number.MAX_SAFE_INTEGER])(
    'a quantity of %j is a 400',
    async (quantity) => {
      await expectRefused(() => order({ sku: 'goods', quantity }), 400, 'INVALID_INPUT', 'quantity');
      const deduct = (): Promise<Reply> =>
        sample.post('/inventory/goods/deduct', { quantity }, { 'X-Request-Id': `bad-${(requests += 1)}` });
      await expectRefused(deduct, 400, 'INVALID_INPUT', 'quantity');
    },
  );

  it.each<[string, string, object]>([
    ['/orders', 'sku', { quantity: 1 }],
    ['/orders', 'sku', { sku: 'x'.repeat(65), quantity: 1 }],
    ['/merchants/merchant-1/top-up', 'amount', { amount: -1 }],
    ['/reconciliation', 'seconds', { seconds: -1 }],
    ['/reconciliation', 'seconds', { seconds: 61 }],
    ['/reconciliation', 'repair', { repair: 'yes' }],
  ])('%s names the field %s that is wrong in %j', async (path, field, body) => {
    const send = (): Promise<Reply> => sample.post(path, body, { 'X-Request-Id': `bad-${(requests += 1)}` });
    await expectRefused(send, 400, 'INVALID_INPUT', field);
  });

  it.each(['/orders', '/inventory/goods/deduct', '/merchants/merchant-1/top-up'])(
    '%s without a request id is a 400',
    async (path) => {
      await expectRefused(
        () => sample.post(path, { sku: 'goods', quantity: 1 }),
        400,
        'IDEMPOTENCY_KEY',
        'X-Request-Id',
      );
    },
  );

  it.each(['x'.repeat(256), 'with space', '"'])('a request id %j is a 400', async (id) => {
    await expectRefused(
      () => sample.post('/orders', { sku: 'goods', quantity: 1 }, { 'X-Request-Id': id }),
      400,
      'IDEMPOTENCY_KEY',
    );
  });

  it('a request id with another body is a 422', async () => {
    await sample.post('/orders', { sku: 'goods', quantity: 1 }, { 'X-Request-Id': 'used' });
    const other = (): Promise<Reply> =>
      sample.post('/orders', { sku: 'goods', quantity: 2 }, { 'X-Request-Id': 'used' });
    await expectRefused(other, 422, 'IDEMPOTENCY_MISMATCH');
  });

  it('a reconciliation asked for while one runs is a 409', async () => {
    const running = await sample.app.get(LockService).acquire('lock:reconciliation');
    await expectRefused(() => sample.post('/reconciliation', {}), 409, 'RECONCILIATION_RUNNING', 'progress');
    await running.release();
  });
});
