import { LockService } from 'nestjs-redis-lock';
import { GatesService } from '../../sample-app/src/gates/gates.service.js';
import { CancelOrderService } from '../../sample-app/src/orders/cancel-order.service.js';
import { ExpireOrdersJob } from '../../sample-app/src/orders/expire-orders.job.js';
import { DATABASES, MERCHANT, Sample, notice, type Reply } from './sample-fixture.js';

describe.each(DATABASES)('the sample on %s: orders', (where) => {
  let sample: Sample;

  beforeAll(async () => {
    sample = await Sample.start(where);
  });

  afterAll(() => sample.stop());
  afterEach(() => jest.restoreAllMocks());

  const buy = (sku: string, quantity: number, id: string): Promise<Reply> =>
    sample.post('/orders', { sku, quantity }, { 'X-Request-Id': id });
  const cancel = (id: string): Promise<Reply> => sample.request('POST', `/orders/${id}/cancel`);
  const stock = async (sku: string): Promise<object> => (await sample.get(`/inventory/${sku}`)).json;

  /** Both a cancelled order's units and its charge stand in the journal, and nothing else does. */
  async function journalSum(orderId: string): Promise<number> {
    const rows = await sample.database.run((db) =>
      db.selectFrom('journal').select('amount').where('order_id', '=', orderId).execute(),
    );
    return rows.reduce((sum, { amount }) => sum + amount, 0);
  }

  it('a double click gives the same order, to both clicks', async () => {
    await sample.article('d1', 10);
    const [one, two] = await Promise.all([buy('d1', 2, 'click'), buy('d1', 2, 'click')]);
    expect([one.status, two.status]).toEqual([201, 201]);
    expect(two.text).toBe(one.text);
    expect(await stock('d1')).toMatchObject({ sold: 2, remaining: 8 });
  });

  it('cancelling gives the units back, once, however often it is asked for at the same moment', async () => {
    await sample.article('c1', 10);
    const { json: order } = await buy('c1', 3, 'c1');
    const replies = await Promise.all(Array.from({ length: 5 }, () => cancel(order.id)));
    for (const reply of replies) expect(reply).toMatchObject({ status: 200, json: { status: 'cancelled' } });
    expect(await stock('c1')).toMatchObject({ sold: 0, remaining: 10 });
    expect(await journalSum(order.id)).toBe(0);
    expect((await buy('c1', 10, 'c1-all')).status).toBe(201);
  });

  it('a repeat of the purchase is told of the cancelled order, also when its record is lost', async () => {
    await sample.article('c2', 10);
    const { json: order } = await buy('c2', 1, 'c2');
    await cancel(order.id);
    const client = sample.redis.client();
    await client.del(...(await client.keys('idem:*')));
    const again = await buy('c2', 1, 'c2');
    expect(again.json).toMatchObject({ id: order.id, status: 'cancelled' });
    expect(await stock('c2')).toMatchObject({ sold: 0, remaining: 10 });
  });

  it('cancelling gives the merchant’s charge back, too', async () => {
    await sample.merchant('m-cancel', 5);
    await sample.pendingOrder('c3', 'm-cancel');
    expect((await sample.request('POST', '/orders/c3/pay')).status).toBe(200);
    expect((await sample.get('/merchants/m-cancel')).json).toMatchObject({ spent: 1, remaining: 4 });
    await cancel('c3');
    expect((await sample.get('/merchants/m-cancel')).json).toMatchObject({ spent: 0, remaining: 5 });
    expect(await journalSum('c3')).toBe(0);
  });

  it('a paid order cannot be cancelled, and keeps its units', async () => {
    await sample.pendingOrder('c4');
    await sample.notify(notice('c4'));
    expect(await cancel('c4')).toMatchObject({ status: 409, json: { code: 'ORDER_PAID' } });
    expect((await sample.get('/orders/c4')).json.status).toBe('paid');
  });

  it('a payment and a cancellation at the same moment: one of them decides', async () => {
    const ids = Array.from({ length: 10 }, (_, n) => `both-${n}`);
    for (const id of ids) await sample.pendingOrder(id);
    await Promise.all(ids.flatMap((id) => [sample.notify(notice(id)), cancel(id)]));
    for (const id of ids) {
      const { json: order } = await sample.get(`/orders/${id}`);
      expect(order.payments).toHaveLength(order.status === 'paid' ? 1 : 0);
      expect(await journalSum(id)).toBe(order.status === 'paid' ? 2 : 0);
    }
  });

  it('a cancellation that died between the database and Redis is finished by the next one', async () => {
    await sample.article('c5', 10);
    const { json: order } = await buy('c5', 4, 'c5');
    jest.spyOn(sample.app.get(GatesService), 'giveBack').mockRejectedValueOnce(new Error('killed here'));
    expect((await cancel(order.id)).status).toBe(500);
    expect(await stock('c5')).toMatchObject({ sold: 0, remaining: 6 });
    expect((await cancel(order.id)).status).toBe(200);
    expect(await stock('c5')).toMatchObject({ sold: 0, remaining: 10 });
  });

  it('L42: a stale holder cannot cancel what its successor has claimed', async () => {
    await sample.pendingOrder('c6');
    const locks = sample.app.get(LockService);
    const first = await locks.acquire('lock:order:c6', { ttl: '60s' });
    await sample.redis.client().del('lock:order:c6');
    expect((await sample.notify(notice('c6'))).status).toBe(200);
    const refused = sample.app.get(CancelOrderService).cancel('c6', first);
    await expect(refused).rejects.toMatchObject({ response: { code: 'STALE_HOLDER' } });
    expect(await sample.refusals('cancel:c6')).toEqual([{ reason: 'stale holder' }]);
    expect((await sample.get('/orders/c6')).json.status).toBe('paid');
    await first.release();
  });

  describe('that nobody pays', () => {
    const expire = (id: string): Promise<unknown> =>
      sample.database.run((db) =>
        db
          .updateTable('orders')
          .set({ expires_at: '2000-01-01T00:00:00.000Z' })
          .where('id', '=', id)
          .execute(),
      );
    const freeTheSlot = (): Promise<boolean> =>
      sample.app.get(LockService).forceRelease('lock:cron:expire-orders');

    it('are cancelled by one of all instances, and the others skip', async () => {
      await freeTheSlot();
      await sample.article('e1', 10);
      const { json: due } = await buy('e1', 2, 'e1-due');
      const { json: fresh } = await buy('e1', 1, 'e1-fresh');
      await expire(due.id);
      const other = await sample.another();
      const runs = await Promise.all([
        sample.app.get(ExpireOrdersJob).run(),
        other.app.get(ExpireOrdersJob).run(),
      ]);
      // minHold: a third one that is a little late finds the slot taken as well
      const late = await other.app.get(ExpireOrdersJob).run();
      await other.close();
      expect([...runs, late].filter((cancelled) => cancelled !== undefined)).toEqual([1]);
      expect((await sample.get(`/orders/${due.id}`)).json.status).toBe('cancelled');
      expect((await sample.get(`/orders/${fresh.id}`)).json.status).toBe('pending');
      expect(await stock('e1')).toMatchObject({ sold: 1, remaining: 9 });
    });

    it('are left alone while somebody pays them at this moment', async () => {
      await freeTheSlot();
      await sample.pendingOrder('e2');
      await expire('e2');
      const paying = await sample.app.get(LockService).acquire('lock:order:e2');
      expect(await sample.app.get(ExpireOrdersJob).run()).toBe(0);
      await paying.release();
      expect((await sample.notify(notice('e2'))).status).toBe(200);
      await freeTheSlot();
      expect(await sample.app.get(ExpireOrdersJob).run()).toBe(0);
      expect((await sample.get('/orders/e2')).json.status).toBe('paid');
    });
  });

  describe('the merchants’ prepaid quota', () => {
    const quota = async (id: string): Promise<object> => (await sample.get(`/merchants/${id}`)).json;

    it('is charged once per paid order, whichever of the three entry points it comes from, and however often', async () => {
      await sample.merchant('hot-three', 50);
      for (const id of ['web', 'mini', 'api']) await sample.pendingOrder(id, 'hot-three');
      const merchantId = 'hot-three';
      const deliveries = [
        notice('web', { provider: 'stripe' }),
        notice('mini', { provider: 'wechat' }),
        { ...notice('api', { provider: 'open-api' }), merchantId },
      ];
      expect((await sample.request('POST', '/orders/web/pay')).json).toMatchObject({ provider: 'stripe' });
      expect((await sample.request('POST', '/mini-program/orders/mini/pay')).json).toMatchObject({
        provider: 'wechat',
      });
      for (const delivery of [...deliveries, ...deliveries]) {
        expect((await sample.notify(delivery)).status).toBe(200);
      }
      expect(await quota('hot-three')).toEqual({
        id: 'hot-three',
        granted: 50,
        spent: 3,
        remaining: 47,
        shards: 8,
      });
      expect((await sample.get('/orders/api')).json.payments).toMatchObject([{ provider: 'open-api' }]);
    });

    it('is spread over shards for a hot merchant, and exactly what is prepaid can be spent', async () => {
      await sample.merchant('hot-race', 12);
      const ids = Array.from({ length: 20 }, (_, n) => `race-${n}`);
      for (const id of ids) await sample.pendingOrder(id, 'hot-race');
      const replies = await Promise.all(ids.map((id) => sample.request('POST', `/orders/${id}/pay`)));
      expect(replies.filter(({ status }) => status === 200)).toHaveLength(12);
      for (const { status, json } of replies.filter((reply) => reply.status !== 200))
        expect({ status, code: json.code }).toEqual({ status: 409, code: 'LOW_BALANCE' });
      expect(await quota('hot-race')).toMatchObject({ spent: 12, remaining: 0 });
      const keys = await sample.redis.client().keys('quota:hot-race:*');
      expect(keys.filter((key) => /^quota:hot-race:\d+$/.test(key)).length).toBe(8);
    });

    it('answers 409 with what remains, and takes the order after a top-up', async () => {
      await sample.merchant('m-low', 1);
      await sample.pendingOrder('low-1', 'm-low');
      await sample.pendingOrder('low-2', 'm-low');
      expect((await sample.notify(notice('low-1'))).status).toBe(200);
      const low = await sample.notify(notice('low-2'));
      expect(low).toMatchObject({
        status: 409,
        json: {
          code: 'LOW_BALANCE',
          remaining: 0,
          message: expect.stringContaining('0 prepaid orders left'),
        },
      });
      expect((await sample.get('/orders/low-2')).json).toMatchObject({ status: 'pending', payments: [] });
      const topUp = (): Promise<Reply> =>
        sample.post('/merchants/m-low/top-up', { amount: 10 }, { 'X-Request-Id': 'top-up' });
      await Promise.all([topUp(), topUp()]);
      expect((await sample.notify(notice('low-2'))).status).toBe(200);
      expect(await quota('m-low')).toMatchObject({ granted: 11, spent: 2, remaining: 9 });
    });

    it('is guarded by the database when Redis has more than was prepaid', async () => {
      await sample.merchant('m-over', 1);
      await sample.pendingOrder('over-1', 'm-over');
      await sample.pendingOrder('over-2', 'm-over');
      await sample.redis.client().hset('quota:m-over', 'remain', 100);
      expect((await sample.notify(notice('over-1'))).status).toBe(200);
      expect(await sample.notify(notice('over-2'))).toMatchObject({
        status: 409,
        json: { code: 'LOW_BALANCE' },
      });
      expect(await sample.refusals('transaction-over-2')).toEqual([{ reason: 'overspend' }]);
      expect(await quota('m-over')).toMatchObject({ granted: 1, spent: 1 });
      expect((await sample.get('/orders/over-2')).json.status).toBe('pending');
    });
  });

  it('counts what every order took from its merchant in one place', async () => {
    const { json: merchants } = await sample.get('/merchants');
    expect(merchants.map(({ id }: { id: string }) => id)).toContain(MERCHANT);
  });
});
