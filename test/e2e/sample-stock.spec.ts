import { LockService, QuotaService } from 'nestjs-redis-lock';
import { Sample, PRICE } from './sample-fixture.js';

describe('the sample: stock', () => {
  let sample: Sample;

  beforeAll(async () => {
    sample = await Sample.start();
  });

  afterAll(() => sample.stop());

  const withId = (id: string): Record<string, string> => ({ 'X-Request-Id': id });

  it('POST /orders takes the stock and replays the order to a repeat', async () => {
    await sample.article('s1', 10);
    const first = await sample.post('/orders', { sku: 's1', quantity: 3 }, withId('r1'));
    expect(first.status).toBe(201);
    expect(first.json).toMatchObject({ sku: 's1', quantity: 3, amount: 3 * PRICE, status: 'pending' });
    const repeat = await sample.post('/orders', { sku: 's1', quantity: 3 }, withId('r1'));
    expect(repeat.status).toBe(201);
    expect(repeat.headers.get('idempotent-replayed')).toBe('true');
    expect(repeat.text).toBe(first.text);
    expect((await sample.get('/inventory/s1')).json).toMatchObject({ stock: 10, sold: 3, remaining: 7 });
    expect((await sample.get(`/orders/${first.json.id}`)).json).toMatchObject(first.json);
  });

  it('a request id that comes with another body is refused', async () => {
    await sample.article('s2', 10);
    await sample.post('/orders', { sku: 's2', quantity: 1 }, withId('r2'));
    const other = await sample.post('/orders', { sku: 's2', quantity: 2 }, withId('r2'));
    expect(other.status).toBe(422);
    expect(other.json.code).toBe('IDEMPOTENCY_MISMATCH');
  });

  it.each(['/orders', '/inventory/s1/deduct'])('%s wants a request id', async (path) => {
    const reply = await sample.post(path, { sku: 's1', quantity: 1 });
    expect(reply.status).toBe(400);
    expect(reply.json.code).toBe('IDEMPOTENCY_KEY');
  });

  it.each([
    ['quantity', { sku: 's1', quantity: 0 }],
    ['quantity', { sku: 's1', quantity: 1.5 }],
    ['quantity', { sku: 's1', quantity: '2' }],
    ['quantity', { sku: 's1' }],
    ['sku', { quantity: 1 }],
  ])('names the field %s that is wrong in %j', async (field, body) => {
    const reply = await sample.post('/orders', body, withId(`bad-${JSON.stringify(body)}`));
    expect(reply.status).toBe(400);
    expect(JSON.stringify(reply.json.message)).toContain(field);
  });

  it('says which article or order it does not know', async () => {
    const order = await sample.post('/orders', { sku: 'nothing', quantity: 1 }, withId('r3'));
    expect(order.status).toBe(404);
    expect(order.json).toMatchObject({ code: 'UNKNOWN_SKU', message: expect.stringContaining('nothing') });
    expect((await sample.get('/inventory/nothing')).status).toBe(404);
    expect((await sample.get('/orders/nothing')).json.code).toBe('UNKNOWN_ORDER');
  });

  it('sixty buyers race for twenty units: twenty get one, and every count agrees', async () => {
    await sample.article('s4', 20);
    const replies = await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        sample.post('/inventory/s4/deduct', { quantity: 1 }, withId(`race-${n}`)),
      ),
    );
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(20);
    const refused = replies.filter(({ status }) => status !== 201);
    for (const reply of refused)
      expect(reply).toMatchObject({ status: 409, json: { code: 'QUOTA_EXCEEDED' } });
    expect((await sample.get('/inventory/s4')).json).toMatchObject({ stock: 20, sold: 20, remaining: 0 });
    const journal = await sample.database.run((db) =>
      db.selectFrom('stock_journal').select('quantity').where('sku', '=', 's4').execute(),
    );
    expect(journal).toHaveLength(20);
  });

  it('a refused buyer may try again with the same request id after a restock', async () => {
    await sample.article('s5', 1);
    await sample.post('/inventory/s5/deduct', { quantity: 1 }, withId('r5-1'));
    expect((await sample.post('/inventory/s5/deduct', { quantity: 1 }, withId('r5-2'))).status).toBe(409);
    await sample.app.get(QuotaService).grant('stock:s5', 1);
    await sample.database.run((db) =>
      db.updateTable('inventory').set({ stock: 2 }).where('sku', '=', 's5').execute(),
    );
    expect((await sample.post('/inventory/s5/deduct', { quantity: 1 }, withId('r5-2'))).status).toBe(201);
  });

  it('takes and books nothing twice when the idempotency record is lost', async () => {
    await sample.article('s6', 10);
    const first = await sample.post('/inventory/s6/deduct', { quantity: 4 }, withId('r6'));
    const client = sample.redis.client();
    const records = await client.keys('idem:*');
    await client.del(...records);
    const again = await sample.post('/inventory/s6/deduct', { quantity: 4 }, withId('r6'));
    expect(again.headers.has('idempotent-replayed')).toBe(false);
    expect(again.json).toEqual(first.json);
    expect((await sample.get('/inventory/s6')).json).toMatchObject({ sold: 4, remaining: 6 });
  });

  it('finishes what a run left between the deduction and the booking', async () => {
    await sample.article('s7', 10);
    await sample.app.get(QuotaService).deduct('stock:s7', 4, { operationId: 'deduct:r7' });
    const reply = await sample.post('/inventory/s7/deduct', { quantity: 4 }, withId('r7'));
    expect(reply.status).toBe(201);
    expect((await sample.get('/inventory/s7')).json).toMatchObject({ sold: 4, remaining: 6 });
  });

  it('lets the database stop an oversell, and gives the units back, when Redis has more than there is', async () => {
    await sample.article('s8', 2);
    await sample.app.get(QuotaService).grant('stock:s8', 100);
    const reply = await sample.post('/inventory/s8/deduct', { quantity: 3 }, withId('r8'));
    expect(reply.status).toBe(409);
    expect(reply.json.code).toBe('SOLD_OUT');
    expect(await sample.refusals('deduct:r8')).toEqual([{ reason: 'oversell' }]);
    expect((await sample.get('/inventory/s8')).json).toMatchObject({ stock: 2, sold: 0, remaining: 102 });
  });

  it('opens the gate again from the database when Redis has lost it', async () => {
    await sample.article('s9', 5);
    await sample.post('/inventory/s9/deduct', { quantity: 2 }, withId('r9-1'));
    const client = sample.redis.client();
    await client.del('stock:s9');
    expect((await sample.post('/inventory/s9/deduct', { quantity: 4 }, withId('r9-2'))).status).toBe(409);
    expect((await sample.post('/inventory/s9/deduct', { quantity: 3 }, withId('r9-3'))).status).toBe(201);
    await client.del('stock:s9');
    const soldOut = await sample.post('/inventory/s9/deduct', { quantity: 1 }, withId('r9-4'));
    expect(soldOut).toMatchObject({ status: 409, json: { code: 'SOLD_OUT' } });
  });

  describe('the flash sale', () => {
    it('tells a second click at once, and lets other buyers through', async () => {
      await sample.article('f1', 10);
      const click = await sample.app.get(LockService).acquire('lock:flash-sale:f1:ann');
      const busy = await sample.post('/inventory/f1/flash-sale', { buyer: 'ann' });
      expect(busy.status).toBe(409);
      expect(busy.json.code).toBe('LOCK_BUSY');
      expect(busy.headers.get('retry-after')).toBe('1');
      expect((await sample.post('/inventory/f1/flash-sale', { buyer: 'bob' })).status).toBe(201);
      await click.release();
      expect((await sample.post('/inventory/f1/flash-sale', { buyer: 'ann' })).status).toBe(201);
    });

    it('sells one per buyer, however often they click', async () => {
      await sample.article('f2', 10);
      const clicks = await Promise.all(
        Array.from({ length: 10 }, () => sample.post('/inventory/f2/flash-sale', { buyer: 'ann' })),
      );
      expect(clicks.filter(({ status }) => status === 201)).toHaveLength(1);
      const again = await sample.post('/inventory/f2/flash-sale', { buyer: 'ann' });
      expect(again).toMatchObject({ status: 409, json: { code: 'ALREADY_BOUGHT' } });
      expect((await sample.get('/inventory/f2')).json).toMatchObject({ sold: 1, remaining: 9 });
    });

    it.each([[{}], [{ buyer: '' }], [{ buyer: ['ann'] }], [{ buyer: { id: 1 } }]])(
      'needs a buyer: %j',
      async (body) => {
        const reply = await sample.post('/inventory/f2/flash-sale', body);
        expect(reply.status).toBe(400);
        expect(reply.text).toContain('buyer');
      },
    );
  });

  describe('the slow admin job', () => {
    it('outlives its lease: the watchdog renews it, and a second run is refused meanwhile', async () => {
      await sample.article('a1', 5);
      await sample.post('/inventory/a1/deduct', { quantity: 2 }, withId('a1'));
      const events: string[] = [];
      const subscription = sample.app.get(LockService).events.subscribe(({ type, key }) => {
        if (key === 'lock:admin:stock-count') events.push(type);
      });
      const running = sample.request('POST', '/admin/stock-count?seconds=5');
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      const second = await sample.request('POST', '/admin/stock-count?seconds=0');
      expect(second).toMatchObject({ status: 409, json: { code: 'LOCK_BUSY' } });
      const { status, json: report } = await running;
      subscription.unsubscribe();
      expect(status).toBe(200);
      expect(report.lock.heldMs).toBeGreaterThan(2 * report.lock.ttlMs);
      expect(report.lock.leastRemainingMs).toBeGreaterThan(0);
      expect(report.lines).toContainEqual({ sku: 'a1', stock: 5, sold: 2, journaled: 2, grantedByRedis: 2 });
      expect(events).not.toContain('lost');
    });

    it('reports what does not agree', async () => {
      await sample.article('a2', 5);
      await sample.app.get(QuotaService).deduct('stock:a2', 1);
      const { json: report } = await sample.request('POST', '/admin/stock-count?seconds=0');
      expect(report.lines).toContainEqual({ sku: 'a2', stock: 5, sold: 0, journaled: 0, grantedByRedis: 1 });
      expect(report.differences).toBeGreaterThan(0);
    });

    it.each(['x', '-1', '61', '1.5'])('refuses seconds=%s', async (seconds) => {
      const reply = await sample.request('POST', `/admin/stock-count?seconds=${seconds}`);
      expect(reply.status).toBe(400);
      expect(reply.text).toContain('seconds');
    });
  });
});
