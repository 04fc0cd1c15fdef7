import type { IdempotencyRecordInfo } from '../../lib/index.js';
import { RedisServer } from '../support/redis-server.js';
import { deferred, freshKey, Sites, type Site } from './idempotency-fixture.js';

const code = (name: string) => expect.objectContaining({ code: name });

describe('what an operator sees of idempotency', () => {
  const sites = new Sites();
  let server: RedisServer;
  let one: Site;
  let two: Site;

  beforeEach(async () => {
    server = await RedisServer.start();
    one = await sites.start(server.url);
    two = await sites.start(server.url);
  });
  afterEach(async () => {
    await sites.closeAll();
    await server.stop();
  });

  async function listed(pattern?: string): Promise<IdempotencyRecordInfo[]> {
    const found: IdempotencyRecordInfo[] = [];
    for await (const record of two.service.list(pattern)) found.push(record);
    return found;
  }

  it('list shows every record with its state, by pattern, and nothing else of the store', async () => {
    const redis = server.client();
    const gate = deferred<string>();
    const keys = Array.from({ length: 1_200 }, () => freshKey());
    for (let at = 0; at < keys.length; at += 100) {
      await Promise.all(keys.slice(at, at + 100).map((key) => one.service.execute(key, () => 'paid')));
    }
    const pending = freshKey();
    const run = one.service.execute(pending, () => gate.promise);
    await two.service.execute(freshKey(), () => 1n);
    await redis.set('idem:key:notes', 'application data');
    await redis.set(`idem:key:${'0'.repeat(64)}`, 'application data');
    await redis.hset('idem:key:mine', 'a', 'b');
    const all = await listed();
    expect(new Set(all.map(({ recordKey }) => recordKey)).size).toBe(1_202);
    expect(all.filter(({ state }) => state === 'pending')).toEqual([
      expect.objectContaining({ recordKey: (await one.service.inspect(pending))!.recordKey, attempt: 1 }),
    ]);
    expect(all.filter(({ replayable }) => !replayable)).toHaveLength(2);
    expect(await listed('key:*')).toHaveLength(1_202);
    expect(await listed('POST:*')).toEqual([]);
    gate.resolve('paid');
    await run;
  });

  it('list can be left at any moment', async () => {
    for (let at = 0; at < 50; at++) await one.service.execute(freshKey(), () => 'paid');
    const seen = new Set<string>();
    for await (const { recordKey } of two.service.list()) {
      seen.add(recordKey);
      if (seen.size === 3) break;
    }
    expect(seen.size).toBe(3);
    await expect(two.service.execute(freshKey(), () => 'ok')).resolves.toMatchObject({ value: 'ok' });
  });

  it('forget lets the next request run, and those who wait are told', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const run = one.service.execute(key, () => gate.promise, { lease: '10m' });
    await one.seen('started');
    const waiting = two.service.execute(key, () => 'second', { onConcurrent: 'wait', waitTimeout: '60s' });
    const { recordKey } = (await one.service.inspect(key))!;
    await expect(one.service.forget(recordKey)).resolves.toBe(true);
    await expect(waiting).resolves.toMatchObject({ value: 'second', replayed: false });
    gate.resolve('first');
    await expect(run).resolves.toMatchObject({ value: 'second', replayed: true });
  });

  it('every outcome is an event and is counted', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const lost = freshKey();
    const run = one.service.execute(key, () => gate.promise, { fingerprint: 1 });
    await one.seen('started');
    await expect(one.service.execute(key, () => 'never')).rejects.toEqual(code('IDEMPOTENCY_IN_PROGRESS'));
    await expect(one.service.execute(key, () => 'never', { fingerprint: 2 })).rejects.toEqual(
      code('IDEMPOTENCY_MISMATCH'),
    );
    gate.resolve('paid');
    await run;
    await one.service.execute(key, () => 'never');
    const held = { onError: 'hold', lease: 100 } as const;
    await one.service.execute(lost, () => Promise.reject(new Error('unclear')), held).catch(() => undefined);
    const late = deferred<string>();
    const slow = one.service.execute(lost, () => late.promise, { onConcurrent: 'wait', waitTimeout: '20s' });
    await one.seen('takeover');
    await two.service.forget(lost);
    await two.service.execute(lost, () => 'second');
    late.resolve('first');
    await slow;
    await server.kill();
    await expect(one.service.execute(freshKey(), () => 'never')).rejects.toEqual(code('STORE_UNAVAILABLE'));
    const counts: Record<string, number> = {};
    for (const { type } of one.events) counts[type] = (counts[type] ?? 0) + 1;
    expect(one.service.counters).toEqual(counts);
    expect(one.service.counters).toEqual({
      started: 2,
      completed: 1,
      replayed: 1,
      inProgress: 1,
      mismatch: 1,
      takeover: 1,
      lost: 1,
      storeDown: 1,
    });
    expect(two.service.counters).toMatchObject({ started: 1, completed: 1, lost: 0 });
  });
});
