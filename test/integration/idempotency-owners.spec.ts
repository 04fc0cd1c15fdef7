import { redisBackend } from '../../lib/backend/redis/redis-backend.js';
import { IdempotencyEngine } from '../../lib/idempotency/idempotency-engine.js';
import { IdempotencyService } from '../../lib/nest/idempotency.service.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { deferred, freshKey, Sites, type Site } from './idempotency-fixture.js';

/** `far` speaks with Redis through a proxy that fails, `near` directly. */
describe('owners of a record', () => {
  const sites = new Sites();
  let server: RedisServer;
  let proxy: TcpProxy;
  let far: Site;
  let near: Site;

  beforeEach(async () => {
    server = await RedisServer.start();
    proxy = await TcpProxy.start(server.port);
    far = await sites.start(proxy.url);
    near = await sites.start(server.url);
  });
  afterEach(async () => {
    await sites.closeAll();
    await proxy.stop();
    await server.stop();
  });

  /** A run of `far` whose lease ended while it was cut off, and the run of `near` that took it over. */
  async function takenOver(first: Promise<string>, second: Promise<string>) {
    const key = freshKey();
    const slow = far.service.execute(key, () => first, { lease: 400 });
    const given = slow.then(
      (result) => result,
      (error: unknown) => error,
    );
    await far.seen('started');
    proxy.cut();
    await far.seen('lost');
    const winner = near.service.execute(key, () => second, { onConcurrent: 'wait', waitTimeout: '30s' });
    await near.seen('takeover');
    proxy.open();
    await far.backend.whenReady(10_000);
    return { key, given, winner };
  }

  it('a stale owner completes: refused, it is told, and the one that runs keeps the record', async () => {
    const [first, second] = [deferred<string>(), deferred<string>()];
    const { key, given, winner } = await takenOver(first.promise, second.promise);
    first.resolve('stale');
    // nobody has finished yet: there is no other reply to give
    await expect(given).resolves.toMatchObject({ value: 'stale', replayed: false });
    await expect(near.service.inspect(key)).resolves.toMatchObject({ state: 'pending', attempt: 2 });
    second.resolve('stored');
    await expect(winner).resolves.toMatchObject({ value: 'stored', attempt: 2 });
    await expect(far.service.execute(key, () => 'never')).resolves.toMatchObject({ value: 'stored' });
    expect(far.service.counters).toMatchObject({ lost: 1, completed: 0 });
  });

  it('a stale owner fails: its release is refused, and frees nothing', async () => {
    const [first, second] = [deferred<string>(), deferred<string>()];
    const { key, given, winner } = await takenOver(first.promise, second.promise);
    first.reject(new Error('declined'));
    await expect(given).resolves.toMatchObject({ message: 'declined' });
    await expect(near.service.inspect(key)).resolves.toMatchObject({ state: 'pending', attempt: 2 });
    second.resolve('stored');
    await expect(winner).resolves.toMatchObject({ value: 'stored', attempt: 2 });
    await expect(far.service.execute(key, () => 'never')).resolves.toMatchObject({ replayed: true });
  });

  it('a stale owner that still runs is refused at its renewal, and renews no more', async () => {
    const [first, second] = [deferred<string>(), deferred<string>()];
    const { key, given, winner } = await takenOver(first.promise, second.promise);
    const renew = jest.spyOn(far.backend.idempotency, 'renew');
    await waitFor(() => renew.mock.results.length > 0, { what: 'a renewal' });
    const replies = await Promise.all(
      renew.mock.results.map(({ value }) => (value as Promise<string>).catch(() => 'failed')),
    );
    expect(replies).toContain('lost');
    const calls = renew.mock.calls.length;
    second.resolve('stored');
    await winner;
    first.resolve('stale');
    await expect(given).resolves.toMatchObject({ value: 'stored', replayed: true });
    expect(renew.mock.calls.length).toBe(calls);
    await expect(near.service.inspect(key)).resolves.toMatchObject({ state: 'done', attempt: 2 });
  });

  it('I14: a renewal that fails once loses nothing: it is tried again within the lease', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const signals: AbortSignal[] = [];
    const running = far.service.execute(
      key,
      ({ signal }) => {
        signals.push(signal);
        return gate.promise;
      },
      { lease: 6_000 },
    );
    await far.seen('started');
    const renew = jest.spyOn(far.backend.idempotency, 'renew');
    proxy.dropReplies(1);
    await waitFor(() => renew.mock.calls.length >= 2, { what: 'the next try' });
    await waitFor(async () => (await near.service.inspect(key))!.leaseMs > 4_500, { what: 'its success' });
    expect(signals[0]!.aborted).toBe(false);
    gate.resolve('paid');
    await expect(running).resolves.toMatchObject({ value: 'paid', replayed: false });
    expect(far.service.counters.lost).toBe(0);
  });

  it('one timer serves the leases of all runs', async () => {
    const timers = jest.spyOn(globalThis, 'setTimeout');
    const gate = deferred<string>();
    const runs = Array.from({ length: 200 }, () => near.service.execute(freshKey(), () => gate.promise));
    await waitFor(() => near.service.counters.started === 200);
    // the time-outs of commands are shorter than a third of the lease
    expect(timers.mock.calls.filter(([, ms]) => (ms ?? 0) > 5_000).length).toBeLessThanOrEqual(5);
    timers.mockRestore();
    gate.resolve('paid');
    await Promise.all(runs);
  });

  it('a completion that is not answered in time ends: the lease goes, and the next run is attempt 2', async () => {
    const backend = redisBackend({ redis: proxy.url });
    await backend.start(5_000);
    const engine = new IdempotencyEngine({ backend, completeWithinMs: 1_500 });
    const service = new IdempotencyService(engine);
    try {
      const key = freshKey();
      const gate = deferred<string>();
      const running = service.execute(key, () => gate.promise, { lease: 1_000 });
      await waitFor(() => service.counters.started === 1);
      proxy.cut();
      gate.resolve('paid');
      await expect(running).resolves.toMatchObject({ value: 'paid', replayed: false });
      await waitFor(() => service.counters.storeDown === 2, { what: 'the end of the tries' });
      const next = near.service.execute(key, () => 'again', { onConcurrent: 'wait', waitTimeout: '30s' });
      await expect(next).resolves.toMatchObject({ value: 'again', attempt: 2 });
    } finally {
      await engine.close(0);
      await backend.close();
    }
  });
});
