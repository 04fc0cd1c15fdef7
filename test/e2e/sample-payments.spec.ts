import { LockService } from 'nestjs-redis-lock';
import { DATABASES, PRICE, Sample, notice } from './sample-fixture.js';

describe.each(DATABASES)('the sample on %s: callbacks', (where) => {
  let sample: Sample;

  beforeAll(async () => {
    sample = await Sample.start(where);
  });

  afterAll(() => sample.stop());

  it('pays an order and tells the provider so', async () => {
    await sample.pendingOrder('o1');
    const reply = await sample.notify(notice('o1'));
    expect(reply.status).toBe(200);
    expect(reply.json).toEqual({ code: 'SUCCESS', message: 'OK' });
    const { json: order } = await sample.get('/orders/o1');
    expect(order.status).toBe('paid');
    expect(order.payments).toHaveLength(1);
    expect(order.payments[0]).toMatchObject({
      transaction_id: 'transaction-o1',
      amount: PRICE,
      fence: order.fence,
    });
  });

  it('answers a redelivery with the same bytes, without running anything, though its fields differ', async () => {
    await sample.pendingOrder('o2');
    const first = await sample.notify(notice('o2'));
    const second = await sample.notify(notice('o2'));
    expect(first.headers.get('idempotent-replayed')).toBeNull();
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(second.status).toBe(200);
    expect(second.text).toBe(first.text);
    expect(second.headers.get('content-type')).toBe(first.headers.get('content-type'));
    expect(await sample.handlerRuns('o2')).toBe(1);
  });

  it('runs once when thirty deliveries come at the same moment, and gives none a success before that one', async () => {
    await sample.pendingOrder('o3');
    const replies = await Promise.all(Array.from({ length: 30 }, () => sample.notify(notice('o3'))));
    const first = replies.filter(
      ({ status, headers }) => status === 200 && !headers.has('idempotent-replayed'),
    );
    const inFlight = replies.filter(({ status }) => status === 409);
    expect(first).toHaveLength(1);
    for (const reply of inFlight) expect(reply.json.code).toBe('FAIL');
    expect(inFlight.length).toBeGreaterThan(0);
    expect(await sample.handlerRuns('o3')).toBe(1);
    expect((await sample.get('/orders/o3')).json.payments).toHaveLength(1);
    expect(await sample.refusals('transaction-o3')).toEqual([]);
  });

  it('takes two notifications of one order one after the other: the second finds it paid', async () => {
    await sample.pendingOrder('o4');
    const [one, two] = await Promise.all([
      sample.notify(notice('o4', { notificationId: 'n4-1', transactionId: 't4-1' })),
      sample.notify(notice('o4', { notificationId: 'n4-2', transactionId: 't4-2' })),
    ]);
    expect([one.status, two.status].toSorted((a, b) => a - b)).toEqual([200, 409]);
    expect([one, two].find(({ status }) => status === 409)!.json.code).toBe('OTHER_PAYMENT');
    expect((await sample.get('/orders/o4')).json.payments).toHaveLength(1);
    expect([...(await sample.refusals('t4-1')), ...(await sample.refusals('t4-2'))]).toEqual([]);
  });

  it('calls another notification of the same transaction a success', async () => {
    await sample.pendingOrder('o5');
    expect((await sample.notify(notice('o5'))).status).toBe(200);
    const again = await sample.notify(notice('o5', { notificationId: 'another-notification' }));
    expect(again.status).toBe(200);
    expect(again.headers.has('idempotent-replayed')).toBe(false);
    expect((await sample.get('/orders/o5')).json.payments).toHaveLength(1);
  });

  it('books a transaction for one order only: the database refuses the second, which stays unpaid', async () => {
    await sample.pendingOrder('o6');
    await sample.pendingOrder('o7');
    expect((await sample.notify(notice('o6', { transactionId: 't-shared' }))).status).toBe(200);
    const other = await sample.notify(notice('o7', { transactionId: 't-shared' }));
    expect(other.status).toBe(409);
    expect(other.json.code).toBe('OTHER_PAYMENT');
    expect((await sample.get('/orders/o7')).json).toMatchObject({ status: 'pending', payments: [] });
    expect(await sample.refusals('t-shared')).toEqual([{ reason: 'duplicate payment' }]);
  });

  it('refuses a wrong amount, and takes the right one under the same id afterwards', async () => {
    await sample.pendingOrder('o8');
    const wrong = await sample.notify(notice('o8', { amount: 1 }));
    expect(wrong.status).toBe(422);
    expect(wrong.json).toMatchObject({
      code: 'WRONG_AMOUNT',
      message: expect.stringContaining(String(PRICE)),
    });
    expect((await sample.get('/orders/o8')).json.status).toBe('pending');
    expect((await sample.notify(notice('o8'))).status).toBe(200);
  });

  it('says which order it does not know', async () => {
    const reply = await sample.notify(notice('nobody'));
    expect(reply.status).toBe(404);
    expect(reply.json).toMatchObject({ code: 'UNKNOWN_ORDER', message: expect.stringContaining('nobody') });
  });

  it('gives up before the provider hangs up while another holds the order, and succeeds afterwards', async () => {
    await sample.pendingOrder('o9');
    const locks = sample.app.get(LockService);
    const lock = await locks.acquire('lock:order:o9');
    const startedAt = performance.now();
    const busy = await sample.notify(notice('o9'));
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expect(busy.status).toBe(409);
    expect(busy.json.code).toBe('LOCK_TIMEOUT');
    expect(await sample.handlerRuns('o9')).toBe(0);
    await lock.release();
    expect((await sample.notify(notice('o9'))).status).toBe(200);
  });
});
