import type { Redis } from 'ioredis';
import type { IdempotencyStore } from '../../lib/backend/backend.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { deferred, freshKey, Sites, type Site } from './idempotency-fixture.js';

const code = (name: string) => expect.objectContaining({ code: name });
const WAIT = { onConcurrent: 'wait', waitTimeout: '60s' } as const;
/** So far away that no look comes by itself while a test runs: what is seen sooner was told. */
const LONG_LEASE = { lease: '10m' } as const;

describe('repeats that wait', () => {
  const sites = new Sites();
  let server: RedisServer;
  let redis: Redis;
  let one: Site;
  let two: Site;

  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    one = await sites.start(server.url);
    two = await sites.start(server.url);
  });
  afterEach(() => sites.closeAll());

  const begins = (site: Site): jest.SpyInstance<ReturnType<IdempotencyStore['begin']>> =>
    jest.spyOn(site.backend.idempotency, 'begin');
  const channels = async (): Promise<number> =>
    ((await redis.pubsub('CHANNELS', 'nestjs-redis-lock:inbox:*')) as string[]).length;
  const waitingIn = async (recordKey: string): Promise<string[]> =>
    (await redis.hkeys(recordKey)).filter((field) => field.startsWith('inbox:'));

  /** A run of `one` that others wait for. */
  async function running(key: string, gate: Promise<unknown>) {
    const run = one.service.execute(key, () => gate, LONG_LEASE);
    await one.seen('started');
    return { run, recordKey: (await one.service.inspect(key))!.recordKey };
  }

  it('thousands cost one subscription, one entry in the record, and the looks of one', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const { run, recordKey } = await running(key, gate.promise);
    const first = two.service.execute(key, () => 'never', { ...WAIT, ...LONG_LEASE });
    await waitFor(async () => (await waitingIn(recordKey)).length === 1, { what: 'the entry' });
    const asked = begins(two);
    const waiting = Array.from({ length: 3_000 }, () => two.service.execute(key, () => 'never', WAIT));
    expect(await waitingIn(recordKey)).toEqual([`inbox:${two.backend.tokenPrefix}`]);
    expect(await channels()).toBe(1);
    const looked = asked.mock.calls.length;
    gate.resolve('paid');
    const results = await Promise.all([first, ...waiting]);
    expect(results.every(({ value, replayed }) => value === 'paid' && replayed)).toBe(true);
    // a look a second at most while they came, and the one that fetched the reply
    expect(looked).toBeLessThan(100);
    expect(asked.mock.calls.length - looked).toBeLessThanOrEqual(2);
    await run;
    expect(await waitingIn(recordKey)).toEqual([]);
  });

  it('I1: of 50 at once on a handler of 150 ms one runs, and 49 get its reply by the message', async () => {
    const key = freshKey();
    let runs = 0;
    let endedAt = 0;
    const looks = [begins(one), begins(two)];
    const task = async (): Promise<string> => {
      runs++;
      await new Promise((resolve) => setTimeout(resolve, 150));
      endedAt = performance.now();
      return 'paid';
    };
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        (index % 2 ? one : two).service.execute(key, task, { ...WAIT, ...LONG_LEASE }),
      ),
    );
    expect(performance.now() - endedAt).toBeLessThan(900);
    expect(runs).toBe(1);
    expect(results.filter(({ replayed }) => replayed)).toHaveLength(49);
    // each asked once; a few looks more of two processes
    expect(looks[0]!.mock.calls.length + looks[1]!.mock.calls.length).toBeLessThan(50 + 20);
  });

  it('I26: when the first fails, exactly one of those that wait runs, told at once', async () => {
    const key = freshKey();
    const gate = deferred();
    const { run, recordKey } = await running(key, gate.promise);
    let runs = 0;
    const waiting = Array.from({ length: 30 }, (_, index) =>
      (index % 3 ? one : two).service.execute(key, () => `run ${++runs}`, { ...WAIT, ...LONG_LEASE }),
    );
    await waitFor(async () => (await waitingIn(recordKey)).length === 2, { what: 'both processes' });
    gate.reject(new Error('declined'));
    await expect(run).rejects.toThrow('declined');
    const results = await Promise.all(waiting);
    expect(runs).toBe(1);
    expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
    expect(new Set(results.map(({ value }) => value))).toEqual(new Set(['run 1']));
  });

  it('a time-out is met by each, and when nobody waits any more nothing is left in the record', async () => {
    const key = freshKey();
    const gate = deferred();
    const { run, recordKey } = await running(key, gate.promise);
    const startedAt = performance.now();
    const waiting = Array.from({ length: 20 }, () =>
      two.service.execute(key, () => 'never', { onConcurrent: 'wait', waitTimeout: '2s' }),
    );
    const settled = Promise.allSettled(waiting);
    await waitFor(async () => (await waitingIn(recordKey)).length === 1, { what: 'the entry' });
    expect(await settled).toEqual(
      waiting.map(() => ({ status: 'rejected', reason: code('IDEMPOTENCY_IN_PROGRESS') })),
    );
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1_999);
    await waitFor(async () => (await waitingIn(recordKey)).length === 0, { what: 'the entry to go' });
    gate.resolve();
    await run;
  });

  it('a lost message costs a second at most: the looks go on behind it', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const { recordKey, run } = await running(key, gate.promise);
    const waiting = two.service.execute(key, () => 'never', { ...WAIT, ...LONG_LEASE });
    await waitFor(async () => (await waitingIn(recordKey)).length === 1, { what: 'the entry' });
    await redis.hdel(recordKey, `inbox:${two.backend.tokenPrefix}`);
    gate.resolve('paid');
    await run;
    await expect(waiting).resolves.toMatchObject({ value: 'paid', replayed: true });
  });

  it('an inbox whose connection dies asks again when it is back', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const { recordKey, run } = await running(key, gate.promise);
    const waiting = two.service.execute(key, () => 'never', { ...WAIT, ...LONG_LEASE });
    await waitFor(async () => (await waitingIn(recordKey)).length === 1, { what: 'the entry' });
    const asked = begins(two);
    await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await waitFor(() => asked.mock.calls.length > 0, { what: 'a look after the next subscription' });
    gate.resolve('paid');
    await expect(waiting).resolves.toMatchObject({ value: 'paid', replayed: true });
    await run;
  });

  it('a user that may not use the channel waits all the same, by asking', async () => {
    await redis.call('ACL', 'SETUSER', 'mute', 'on', '>pw', '~*', '+@all', 'resetchannels');
    const url = `redis://mute:pw@127.0.0.1:${server.port}`;
    const [first, second] = [await sites.start(url), await sites.start(url)];
    const key = freshKey();
    const gate = deferred<string>();
    const run = first.service.execute(key, () => gate.promise);
    await first.seen('started');
    const waiting = second.service.execute(key, () => 'never', WAIT);
    const allowed = two.service.execute(key, () => 'never', WAIT);
    const { recordKey } = (await one.service.inspect(key))!;
    await waitFor(() => second.backend.locks.inbox.state === 'forbidden', { what: 'the refusal' });
    await waitFor(async () => (await waitingIn(recordKey)).length === 1, { what: 'the other one’s entry' });
    gate.resolve('paid');
    // its completion may not tell the other one either
    await expect(run).resolves.toMatchObject({ value: 'paid', replayed: false });
    await expect(waiting).resolves.toMatchObject({ value: 'paid', replayed: true });
    await expect(allowed).resolves.toMatchObject({ value: 'paid', replayed: true });
  });

  it('a store that is down for a while ends no wait; at the end of the time it is told as such', async () => {
    const proxy = await TcpProxy.start(server.port);
    try {
      const far = await sites.start(proxy.url);
      const key = freshKey();
      const gate = deferred<string>();
      const { run } = await running(key, gate.promise);
      const patient = far.service.execute(key, () => 'never', WAIT);
      const hasty = far.service.execute(key, () => 'never', { onConcurrent: 'wait', waitTimeout: '8s' });
      await waitFor(() => far.backend.locks.inbox.state === 'listening');
      proxy.cut();
      await expect(hasty).rejects.toEqual(code('STORE_UNAVAILABLE'));
      gate.resolve('paid');
      await run;
      proxy.open();
      await expect(patient).resolves.toMatchObject({ value: 'paid', replayed: true });
    } finally {
      await sites.closeAll();
      await proxy.stop();
    }
  });

  it('a message of a record is no grant of a lock, nor the other way round', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const { recordKey, run } = await running(key, gate.promise);
    const heard: string[] = [];
    const { inbox } = two.backend.locks;
    inbox.onGrant(({ key: lock }) => heard.push(`lock ${lock}`));
    inbox.onForceRelease(({ key: lock }) => heard.push(`taken ${lock}`));
    inbox.onRecordEnded((record) => heard.push(`record ${record}`));
    const waiting = two.service.execute(key, () => 'never', { ...WAIT, ...LONG_LEASE });
    await waitFor(async () => (await waitingIn(recordKey)).length === 1, { what: 'the entry' });
    gate.resolve('paid');
    await Promise.all([run, waiting]);
    await waitFor(() => heard.length > 0);
    expect(heard).toEqual([`record ${recordKey}`]);
  });
});
