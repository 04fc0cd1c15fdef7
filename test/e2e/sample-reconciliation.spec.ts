import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LockService, QuotaService } from 'nestjs-redis-lock';
import type { ReconciliationReport } from '../../sample-app/src/reconciliation/report.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';
import { DATABASES, Sample, notice, type Reply } from './sample-fixture.js';

jest.setTimeout(120_000);

const byText = (a: string, b: string): number => a.localeCompare(b);

describe.each(DATABASES)('the sample on %s: the reconciliation', (where) => {
  let folder: string;
  let sample: Sample;

  beforeAll(async () => {
    // a folder of its own, so that the snapshot in it outlives the server
    folder = mkdtempSync(join(tmpdir(), 'sample-snapshot-'));
    sample = await Sample.start(where, await RedisServer.start({ config: { dir: folder } }));
  });

  afterAll(async () => {
    await sample.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const ask = (request: object = {}): Promise<Reply> => sample.post('/reconciliation', request);
  const reconcile = async (request: object = {}): Promise<ReconciliationReport> => {
    const reply = await ask(request);
    expect({ status: reply.status, text: reply.text }).toMatchObject({ status: 200 });
    return reply.json as ReconciliationReport;
  };
  const buy = async (sku: string, id: string): Promise<string> => {
    const reply = await sample.post('/orders', { sku, quantity: 2 }, { 'X-Request-Id': id });
    expect(reply.status).toBe(201);
    return reply.json.id as string;
  };
  const remaining = async (sku: string): Promise<number> =>
    (await sample.get(`/inventory/${sku}`)).json.remaining;

  it('has nothing to tell before the first run', async () => {
    for (const path of ['latest', 'latest.txt', 'progress']) {
      const reply = await sample.get(`/reconciliation/${path}`);
      expect(reply).toMatchObject({ status: 404, json: { code: 'NO_RECONCILIATION' } });
    }
  });

  it('outlives its lease, shows its progress to every instance, and refuses a second run meanwhile', async () => {
    await sample.article('w1', 10);
    await buy('w1', 'w1');
    const other = await sample.another();
    const events: string[] = [];
    const subscription = sample.app.get(LockService).events.subscribe(({ type, key }) => {
      if (key === 'lock:reconciliation') events.push(type);
    });
    const running = ask({ seconds: 5 });
    const progress = await waitFor(async () => {
      const { json } = await sample.get('/reconciliation/progress');
      return json.running && json.done > 0 ? json : undefined;
    });
    expect(progress).toMatchObject({
      running: true,
      abandoned: false,
      step: expect.stringContaining('comparing'),
    });
    const second = await ask();
    expect(second).toMatchObject({ status: 409, json: { code: 'RECONCILIATION_RUNNING' } });
    const { json: report } = (await running) as { json: ReconciliationReport };
    subscription.unsubscribe();
    await other.close();

    expect(report.lock.heldMs).toBeGreaterThan(2 * report.lock.ttlMs);
    expect(report.lock.leastRemainingMs).toBeGreaterThan(0);
    expect(events).not.toContain('lost');
    expect(report).toMatchObject({ differences: [], repairs: [] });
    expect(report.lines).toContainEqual({
      gate: 'stock:w1',
      granted: 10,
      orders: 2,
      journal: 2,
      booked: 2,
      redis: 2,
      settled: true,
    });
    expect((await sample.get('/reconciliation/latest')).json).toEqual(report);
    const table = await sample.get('/reconciliation/latest.txt');
    expect(table.headers.get('content-type')).toContain('text/plain');
    expect(table.text).toMatch(/: 0 differences,/);
    expect(table.text).toMatch(/^stock:w1 +10 +2 +2 +2 +2$/m);
    expect((await sample.get('/reconciliation/progress')).json).toMatchObject({
      running: false,
      step: 'finished',
    });
  });

  it('Q13: a Redis from an older snapshot: names exactly the operations that are missing, and repairs them', async () => {
    await sample.merchant('hot-snap', 50);
    await sample.merchant('m-snap', 50);
    await sample.article('snap', 100, 'm-snap');
    const kept = await buy('snap', 'kept');
    const cancelledLater = await buy('snap', 'cancelled-later');
    await sample.pendingOrder('snap-hot-1', 'hot-snap');
    await sample.pendingOrder('snap-hot-2', 'hot-snap');
    await sample.notify(notice('snap-hot-1'));
    await sample.redis.client().save();

    const lost = [await buy('snap', 'lost-1'), await buy('snap', 'lost-2')];
    await sample.notify(notice('snap-hot-2'));
    await sample.notify(notice(lost[0]!, { amount: 2 * 1_990, provider: 'stripe' }));
    await sample.request('POST', `/orders/${cancelledLater}/cancel`);
    expect(await remaining('snap')).toBe(94);

    await sample.redis.restart();
    await waitFor(async () => (await sample.get('/inventory/snap')).status === 200);
    expect(await remaining('snap')).toBe(96);

    const found = await reconcile();
    const named = found.differences.map(({ kind, operationId, orderId, amount }) =>
      [kind, operationId, orderId, amount].join(' '),
    );
    expect(named.toSorted(byText)).toEqual(
      [
        ['missing', 'order:lost-1', lost[0], 2],
        ['missing', 'order:lost-2', lost[1], 2],
        ['missing', `charge:${lost[0]}`, lost[0], 1],
        ['missing', 'charge:snap-hot-2', 'snap-hot-2', 1],
        ['not-given-back', 'order:cancelled-later', cancelledLater, 2],
      ]
        .map((difference) => difference.join(' '))
        .toSorted(byText),
    );
    expect((await reconcile()).differences).toHaveLength(named.length);

    const repaired = await reconcile({ repair: true });
    expect(repaired.repairs).toHaveLength(named.length);
    expect((await reconcile()).differences).toEqual([]);
    expect(await remaining('snap')).toBe(94);
    expect((await sample.get('/merchants/hot-snap')).json).toMatchObject({ spent: 2, remaining: 48 });
    expect((await sample.get('/merchants/m-snap')).json).toMatchObject({ spent: 1, remaining: 49 });
    // Redis knows the operations by their ids again: a late repeat of each takes nothing
    for (const [id, orderId] of [
      ['lost-1', lost[0]],
      ['kept', kept],
    ]) {
      expect(await buy('snap', id!)).toBe(orderId);
    }
    expect(await remaining('snap')).toBe(94);
    const reported = await sample.get('/reconciliation/latest.txt');
    expect(reported.text).toMatch(/: 0 differences,/);
  });

  it('reports units that no order has, or that are not there, and brings them to what the database has', async () => {
    await sample.article('r1', 10);
    await sample.article('r2', 10);
    await sample.article('r3', 10);
    await buy('r1', 'r1');
    await buy('r2', 'r2');
    await buy('r3', 'r3');
    const quotas = sample.app.get(QuotaService);
    await quotas.deduct('stock:r1', 3);
    await quotas.grant('stock:r2', 3);
    await sample.redis.client().del('stock:r3');

    const { differences } = await reconcile();
    expect(differences).toMatchObject([
      {
        kind: 'unexplained',
        gate: 'stock:r1',
        amount: 3,
        text: 'stock:r1: Redis has 3 taken that no order has',
      },
      {
        kind: 'unexplained',
        gate: 'stock:r2',
        amount: 3,
        text: 'stock:r2: Redis has 3 left that are not there',
      },
      {
        kind: 'unexplained',
        gate: 'stock:r3',
        amount: 8,
        text: expect.stringContaining('no quota stock:r3'),
      },
    ]);
    const { repairs } = await reconcile({ repair: true });
    expect(repairs).toEqual(['stock:r1: added 3', 'stock:r2: took 3', 'stock:r3: made it from the database']);
    expect((await reconcile()).differences).toEqual([]);
    for (const sku of ['r1', 'r2', 'r3']) expect(await remaining(sku)).toBe(8);
  });

  it('reports what does not agree within the database, and leaves it to people', async () => {
    await sample.article('d1', 10);
    await sample.pendingOrder('d2');
    await buy('d1', 'd1');
    await sample.database.run(async (db) => {
      await db.updateTable('orders').set({ quantity: 5 }).where('sku', '=', 'd1').execute();
      await db
        .updateTable('orders')
        .set({ status: 'paid', paid_at: '2026-01-01T00:00:00.000Z' })
        .where('id', '=', 'd2')
        .execute();
    });
    const { differences, repairs } = await reconcile({ repair: true });
    expect(repairs).toEqual([]);
    expect(differences).toMatchObject([
      { kind: 'database', orderId: 'd2', text: 'Order d2 is paid, and 0 is booked as paid for it' },
      { kind: 'database', gate: 'stock:d1', amount: 3, text: expect.stringContaining('the orders have 5') },
      { kind: 'database', gate: 'quota:merchant-1', amount: 1 },
    ]);
    await sample.database.run(async (db) => {
      await db.updateTable('orders').set({ quantity: 2 }).where('sku', '=', 'd1').execute();
      await db
        .updateTable('orders')
        .set({ status: 'pending', paid_at: null })
        .where('id', '=', 'd2')
        .execute();
    });
    expect((await reconcile()).differences).toEqual([]);
  });

  it('does not take what is under way for a difference', async () => {
    await sample.article('busy', 1_000_000);
    const closing = new AbortController();
    const buyers = Array.from({ length: 4 }, async (_, buyer) => {
      for (let n = 0; !closing.signal.aborted; n += 1) {
        const id = await buy('busy', `busy-${buyer}-${n}`);
        if (n % 3 === 0) await sample.request('POST', `/orders/${id}/cancel`);
      }
    });
    const reports: ReconciliationReport[] = [];
    try {
      reports.push(await reconcile({ repair: true }));
    } finally {
      closing.abort();
      await Promise.all(buyers);
    }
    for (const { differences, repairs } of reports) expect([...differences, ...repairs]).toEqual([]);
    expect((await reconcile()).differences).toEqual([]);
  });

  it('says that a run is over whose process is gone', async () => {
    const id = Date.now() * 1_000;
    const row = { id, step: 'comparing', done: 1, total: 9, finished_at: null, report: null };
    await sample.database.run((db) =>
      db
        .insertInto('reconciliations')
        .values({ ...row, started_at: new Date().toISOString() })
        .execute(),
    );
    const { json: progress } = await sample.get('/reconciliation/progress');
    expect(progress).toMatchObject({ id, running: false, abandoned: true });
  });
});
