import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { redisBackend } from '../../lib/backend/redis/redis-backend.js';
import type { Backend } from '../../lib/backend/backend.js';
import { QuotaManager } from '../../lib/quota/quota-manager.js';
import type { QuotaReceipt } from '../../lib/quota/quota.js';
import { Child } from '../support/child.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';

const BUYER = join(__dirname, '..', 'integration', 'children', 'quota-buyer.ts');
const STOCK = 10_000;

describe('calls on one quota that are carried to Redis together', () => {
  let server: RedisServer;
  let proxy: TcpProxy;
  let backend: Backend;
  let quotas: QuotaManager;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    await server.client().flushall();
    proxy = await TcpProxy.start(server.port);
    backend = redisBackend({ redis: proxy.url });
    await backend.start(10_000);
    quotas = new QuotaManager({ backend });
    await quotas.init('stock', STOCK);
  });
  afterEach(async () => {
    await backend.close();
    await proxy.stop();
  });

  const stored = async (): Promise<number> => Number(await server.client().hget('stock', 'remain'));
  const scriptCalls = async (): Promise<number> =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(await server.client().info('commandstats'))?.[1] ?? 0);
  const amounts = (receipts: readonly QuotaReceipt[]): number =>
    receipts.reduce((sum, { amount }) => sum + amount, 0);
  type Options = (at: number) => { operationId?: string };
  const many = (count: number, options: Options): Array<Promise<QuotaReceipt>> =>
    Array.from({ length: count }, (_, at) => quotas.deduct('stock', (at % 3) + 1, options(at)));
  const mixes: Array<[string, Options]> = [
    ['without ids', () => ({})],
    ['with ids', (at) => ({ operationId: `o:${at}` })],
    ['some with ids', (at) => (at % 2 ? { operationId: `o:${at}` } : {})],
  ];

  it.each(mixes)('go in few scripts, in order, %s', async (_how, options) => {
    await Promise.all(many(10, (at) => options(at + 5_000)));
    const [before, left] = [await scriptCalls(), await stored()];
    const receipts = await Promise.all(many(600, options));
    expect((await scriptCalls()) - before).toBeLessThanOrEqual(2);
    expect(await stored()).toBe(left - amounts(receipts));
    expect(receipts.map(({ remaining }) => remaining)).toEqual(
      receipts.map(({ remaining }) => remaining).sort((a, b) => b - a),
    );
  });

  it.each(mixes)(
    'Q8: the answer to a batch of 200 is lost: everybody gets a true one after the retry, %s',
    async (_how, options) => {
      await Promise.all(many(20, (at) => options(at + 5_000)));
      const left = await stored();
      proxy.dropReplies(1);
      const receipts = await Promise.all(many(200, options));
      expect(await stored()).toBe(left - amounts(receipts));
      expect(new Set(receipts.map(({ remaining }) => remaining)).size).toBe(200);
    },
  );

  it.each(mixes)(
    'Q8: the connection is cut in the middle of a batch of 200 on its way: %s',
    async (_how, options) => {
      await Promise.all(many(20, (at) => options(at + 5_000)));
      const left = await stored();
      proxy.closeAfterBytes(300, 'up');
      const receipts = await Promise.all(many(200, options));
      expect(await stored()).toBe(left - amounts(receipts));
    },
  );

  it('Q17: a batch that stays unanswered to the end: every caller is told that the outcome is unknown', async () => {
    await Promise.all(many(5, () => ({})));
    proxy.swallow();
    const settled = await Promise.allSettled(many(50, () => ({})));
    for (const one of settled) {
      expect(one).toMatchObject({
        status: 'rejected',
        reason: { code: 'STORE_UNAVAILABLE', outcome: 'unknown' },
      });
    }
    const reasons = settled.map((one) => (one as PromiseRejectedResult).reason as unknown);
    expect(new Set(reasons).size).toBe(50);
    proxy.closeConnections();
    proxy.pass();
    const left = await stored();
    expect(await quotas.deduct('stock')).toMatchObject({ remaining: left - 1 });
  });

  it('survives SCRIPT FLUSH between and behind batches', async () => {
    let taken = 0;
    for (let round = 0; round < 3; round++) {
      const calls = Promise.all(many(50, (at) => (at % 2 ? { operationId: `${round}:${at}` } : {})));
      await server.client().script('FLUSH');
      taken += amounts(await calls);
    }
    expect(await stored()).toBe(STOCK - taken);
  });

  describe('a caller that aborts', () => {
    it('before anything was sent: nothing was carried out, and the others are served', async () => {
      const gone = new AbortController();
      const aborted = quotas.deduct('stock', 5, { signal: gone.signal });
      const other = quotas.deduct('stock', 1);
      gone.abort(new Error('left'));
      await expect(aborted).rejects.toMatchObject({
        code: 'STORE_UNAVAILABLE',
        outcome: 'notApplied',
        cause: { message: 'left' },
      });
      expect(await other).toMatchObject({ remaining: STOCK - 1 });
      await expect(quotas.deduct('stock', 5, { signal: gone.signal })).rejects.toMatchObject({
        outcome: 'notApplied',
      });
      expect(await stored()).toBe(STOCK - 1);
    });

    it('with its batch under way: the outcome is unknown, with its id it can be found out, and the others are served', async () => {
      await quotas.deduct('stock', 1);
      proxy.delay(200, 'down');
      const gone = new AbortController();
      const aborted = quotas.deduct('stock', 5, { operationId: 'o', signal: gone.signal });
      const other = quotas.deduct('stock', 1);
      const later = waitFor(async () => (await stored()) < STOCK - 1);
      await later;
      const queued = new AbortController();
      const behind = quotas.deduct('stock', 7, { signal: queued.signal });
      gone.abort();
      queued.abort();
      await expect(aborted).rejects.toMatchObject({ outcome: 'unknown', retryable: false });
      await expect(behind).rejects.toMatchObject({ outcome: 'notApplied' });
      expect(await other).toMatchObject({ remaining: STOCK - 7 });
      proxy.pass();
      expect(await quotas.deduct('stock', 5, { operationId: 'o' })).toMatchObject({ replayed: true });
      expect(await stored()).toBe(STOCK - 7);
    });
  });

  it('Redis comes back empty: nobody is told a guess', async () => {
    const mine = await RedisServer.start();
    const own = redisBackend({ redis: mine.url });
    await own.start(10_000);
    const there = new QuotaManager({ backend: own });
    await there.init('stock', STOCK);
    await there.deduct('stock');
    const calls = Array.from({ length: 200 }, (_, at) =>
      there.deduct('stock', 1, at % 2 ? { operationId: `e:${at}` } : {}),
    );
    await mine.restart();
    for (const one of await Promise.allSettled(calls)) {
      if (one.status === 'fulfilled') expect(one.value.remaining).toBeLessThan(STOCK);
      else expect(['QUOTA_NOT_FOUND', 'STORE_UNAVAILABLE']).toContain((one.reason as { code: string }).code);
    }
    await waitFor(() =>
      own.whenReady(1_000).then(
        () => true,
        () => false,
      ),
    );
    await expect(there.deduct('stock')).rejects.toMatchObject({ code: 'QUOTA_NOT_FOUND' });
    expect(await there.init('stock', 3)).toBe(true);
    const after = await Promise.all(Array.from({ length: 5 }, () => there.tryDeduct('stock')));
    expect(after.filter((receipt) => receipt !== null)).toHaveLength(3);
    await own.close();
    await mine.stop();
  });

  it('Redis comes back from an older snapshot: no more is sold than it says, and each operation once', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'quota-snapshot-'));
    const mine = await RedisServer.start({ config: { dir } });
    const own = redisBackend({ redis: mine.url });
    await own.start(10_000);
    const there = new QuotaManager({ backend: own });
    await there.init('stock', 10);
    await there.deduct('stock', 2, { operationId: 'kept' });
    await mine.client().save();
    await there.deduct('stock', 3, { operationId: 'lost' });
    await mine.restart();
    await waitFor(() =>
      own.whenReady(1_000).then(
        () => true,
        () => false,
      ),
    );
    expect(await there.deduct('stock', 2, { operationId: 'kept' })).toMatchObject({
      remaining: 8,
      replayed: true,
    });
    // Redis has forgotten it: so it has not taken either
    expect(await there.deduct('stock', 3, { operationId: 'lost' })).toMatchObject({
      remaining: 5,
      replayed: false,
    });
    expect(await there.deduct('stock', 3, { operationId: 'lost' })).toMatchObject({ replayed: true });
    const receipts = await Promise.all(Array.from({ length: 9 }, () => there.tryDeduct('stock')));
    expect(receipts.filter((receipt) => receipt !== null)).toHaveLength(5);
    expect(await there.remaining('stock')).toBe(0);
    await own.close();
    await mine.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  it('Q14: kill -9 of a process with a batch in flight: another takes its operations over, each taken once', async () => {
    const child = Child.start(BUYER, { args: [proxy.url, 'stock', '200', 'taken-over'] });
    await child.next({ type: 'ready' });
    proxy.swallow('down');
    const applied = waitFor(async () => (await stored()) < STOCK);
    child.send('go');
    await applied;
    await child.kill();
    proxy.closeConnections();
    proxy.pass();
    const direct = redisBackend({ redis: server.url });
    await direct.start(10_000);
    const heir = new QuotaManager({ backend: direct });
    const receipts = await Promise.all(
      Array.from({ length: 200 }, (_, buyer) =>
        heir.deduct('stock', 1, { operationId: `taken-over:${buyer}` }),
      ),
    );
    expect(receipts.some(({ replayed }) => replayed)).toBe(true);
    expect(await stored()).toBe(STOCK - 200);
    await direct.close();
  });
});
