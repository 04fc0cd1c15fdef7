import { LockService, QuotaService } from 'nestjs-redis-lock';
import { GatesService } from '../../sample-app/src/gates/gates.service.js';
import { DATABASES, PRICE, Sample } from './sample-fixture.js';

describe.each(DATABASES)('the sample on %s: stock', (where) => {
  let sample: Sample;

  beforeAll(async () => {
    sample = await Sample.start(where);
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
      db.selectFrom('journal').select('amount').where('gate', '=', 'stock:s4').execute(),
    );
    expect(journal).toHaveLength(20);
  });

  it('a refused buyer may try again with the same request id after a restock', async () => {
    await sample.article('s5', 1);
    await sample.post('/inventory/s5/deduct', { quantity: 1 }, withId('r5-1'));
    expect((await sample.post('/inventory/s5/deduct', { quantity: 1 }, withId('r5-2'))).status).toBe(409);
    await sample.app.get(GatesService).grow('stock:s5', 1, 'restock:s5:again');
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
    expect(soldOut).toMatchObject({ status: 409, json: { code: 'QUOTA_EXCEEDED' } });
  });

  it('tells a buyer of the order that is booked, though Redis has forgotten it and has nothing left', async () => {
    await sample.article('s10', 2);
    const buy = () => sample.post('/orders', { sku: 's10', quantity: 2 }, withId('r10'));
    const first = await buy();
    await sample.redis.client().flushall();
    expect(await buy()).toMatchObject({ status: 201, json: { id: first.json.id } });
  });

  it('tells a buyer of the order that is booked, though Redis has forgotten it and would sell it again', async () => {
    await sample.article('s11', 2);
    const buy = () => sample.post('/orders', { sku: 's11', quantity: 2 }, withId('r11'));
    const first = await buy();
    await sample.redis.client().flushall();
    await sample.app.get(QuotaService).grant('stock:s11', 2);
    expect(await buy()).toMatchObject({ status: 201, json: { id: first.json.id } });
    expect((await sample.get('/inventory/s11')).json).toMatchObject({ stock: 2, sold: 2, remaining: 0 });
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
});
