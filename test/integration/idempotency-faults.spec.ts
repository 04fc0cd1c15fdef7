import { join } from 'node:path';
import { Child } from '../support/child.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { deferred, freshKey, Sites, type Site } from './idempotency-fixture.js';

const code = (name: string) => expect.objectContaining({ code: name });
const CHILD = join(__dirname, 'children', 'idempotency-run.ts');

/** `far` speaks with Redis through a proxy that fails, `near` directly. */
describe('idempotency when things fail', () => {
  const sites = new Sites();
  const children: Child[] = [];
  let server: RedisServer;
  let proxy: TcpProxy;
  let far: Site;
  let near: Site;

  beforeEach(async () => {
    server = await RedisServer.start();
    proxy = await TcpProxy.start(server.port);
    far = await sites.start(proxy.url);
    near = await sites.start(server.url);
    // the server knows the scripts: a reply that is dropped below is one of a script that ran
    await near.service.execute(freshKey(), () => 'kept');
    await near.service.execute(freshKey(), () => Promise.reject(new Error('freed'))).catch(() => undefined);
    const request = {
      recordKey: freshKey(),
      owner: 'o',
      attempt: 1,
      fingerprint: null,
      ttlMs: 1_000,
      leaseMs: 1_000,
    };
    await near.backend.idempotency.renew(request, 1_000);
    near.events.length = 0;
  });
  afterEach(async () => {
    for (const child of children.splice(0)) await child.kill();
    await sites.closeAll();
    await proxy.stop();
    await server.stop();
  });

  async function child(env: Record<string, string> = {}): Promise<Child> {
    const started = Child.start(CHILD, { env: { REDIS_URL: server.url, ...env } });
    children.push(started);
    await started.next({ type: 'ready' });
    return started;
  }

  it('I12: after a kill -9 the retry runs as attempt 2 once the lease is over, its fingerprint still checked', async () => {
    const key = freshKey();
    const victim = await child();
    victim.send({ type: 'run', key, options: { lease: 600, fingerprint: 'order 1' } });
    await victim.next({ type: 'running', attempt: 1 });
    await victim.kill();
    const other = () => near.service.execute(key, () => 'never', { fingerprint: 'order 2' });
    await expect(other()).rejects.toEqual(code('IDEMPOTENCY_MISMATCH'));
    await expect(near.service.execute(key, () => 'never', { fingerprint: 'order 1' })).rejects.toEqual(
      code('IDEMPOTENCY_IN_PROGRESS'),
    );
    await waitFor(async () => (await near.service.inspect(key))!.leaseMs === 0, { what: 'the lease to end' });
    await expect(other()).rejects.toEqual(code('IDEMPOTENCY_MISMATCH'));
    await expect(near.service.execute(key, () => 'done', { fingerprint: 'order 1' })).resolves.toEqual({
      value: 'done',
      replayed: false,
      attempt: 2,
    });
  });

  it('I13: an owner that lost its lease is told, and answers with the reply of the one that finished', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const aborted = deferred<unknown>();
    const slow = far.service.execute(
      key,
      ({ signal }) => {
        signal.addEventListener('abort', () => aborted.resolve(signal.reason));
        return gate.promise;
      },
      { lease: 500 },
    );
    await far.seen('started');
    proxy.cut();
    await expect(aborted.promise).resolves.toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
    await expect(
      near.service.execute(key, () => 'second', { onConcurrent: 'wait', waitTimeout: '10s' }),
    ).resolves.toEqual({ value: 'second', replayed: false, attempt: 2 });
    proxy.open();
    await far.backend.whenReady(10_000);
    gate.resolve('first');
    await expect(slow).resolves.toMatchObject({ value: 'second', replayed: true });
    await expect(near.service.execute(key, () => 'never')).resolves.toMatchObject({ value: 'second' });
  });

  it('an owner whose record another one has taken over is told at its next renewal', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const aborted = deferred<unknown>();
    const slow = far.service.execute(
      key,
      ({ signal }) => {
        signal.addEventListener('abort', () => aborted.resolve(signal.reason));
        return gate.promise;
      },
      { lease: 1_000 },
    );
    await far.seen('started');
    await near.service.forget(key);
    const second = near.service.execute(key, () => gate.promise);
    await near.seen('started');
    await expect(aborted.promise).resolves.toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
    gate.resolve('done');
    await Promise.all([slow, second]);
    expect(far.events.filter(({ type }) => type === 'lost')).toHaveLength(1);
  });

  it('a lease without any answer aborts the signal before it ends in the store', async () => {
    const key = freshKey();
    const leaseAtAbort = deferred<number>();
    void far.service
      .execute(
        key,
        ({ signal }) => {
          signal.addEventListener('abort', () => {
            void near.service.inspect(key).then((record) => leaseAtAbort.resolve(record!.leaseMs));
          });
          return new Promise(() => undefined);
        },
        { lease: 4_000 },
      )
      .catch(() => undefined);
    await far.seen('started');
    proxy.swallow();
    await expect(leaseAtAbort.promise).resolves.toBeGreaterThan(0);
  });

  it('I15: with the store down at begin nothing runs, unless it may be bypassed, which is told', async () => {
    await server.kill();
    const task = jest.fn(() => 'ran');
    await expect(near.service.execute(freshKey(), task)).rejects.toEqual(code('STORE_UNAVAILABLE'));
    expect(task).not.toHaveBeenCalled();
    await expect(near.service.execute(freshKey(), task, { onStoreDown: 'bypass' })).resolves.toEqual({
      value: 'ran',
      replayed: false,
      attempt: 1,
    });
    expect(near.events.map(({ type }) => type)).toEqual(['storeDown', 'storeDown']);
  });

  it('I15: an outage at renewal that ends before the lease does is nothing', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    let aborted = false;
    const running = far.service.execute(
      key,
      ({ signal }) => {
        signal.addEventListener('abort', () => (aborted = true));
        return gate.promise;
      },
      { lease: 6_000 },
    );
    await far.seen('started');
    const renew = jest.spyOn(far.backend.idempotency, 'renew');
    proxy.cut();
    await waitFor(() => renew.mock.calls.length >= 2, { what: 'renewals that fail' });
    proxy.open();
    const { leaseMs } = (await near.service.inspect(key))!;
    await waitFor(async () => (await near.service.inspect(key))!.leaseMs > leaseMs, { what: 'a renewal' });
    gate.resolve('done');
    await expect(running).resolves.toMatchObject({ value: 'done', replayed: false });
    expect(aborted).toBe(false);
  });

  it('I15, I32: with the store down at completion the caller is answered, and the record is done once it is back', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const running = far.service.execute(key, () => gate.promise);
    await far.seen('started');
    proxy.cut();
    gate.resolve('paid');
    await expect(running).resolves.toEqual({ value: 'paid', replayed: false, attempt: 1 });
    await far.seen('storeDown');
    await expect(near.service.inspect(key)).resolves.toMatchObject({ state: 'pending' });
    await expect(near.service.execute(key, () => 'never')).rejects.toEqual(code('IDEMPOTENCY_IN_PROGRESS'));
    proxy.open();
    await far.seen('completed');
    await expect(near.service.execute(key, () => 'never')).resolves.toMatchObject({
      value: 'paid',
      replayed: true,
    });
  });

  it('I32: a restart that empties the store around the completion loses nothing', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const running = near.service.execute(key, () => gate.promise);
    await near.seen('started');
    await server.kill();
    gate.resolve('paid');
    await expect(running).resolves.toMatchObject({ value: 'paid' });
    await server.restart();
    await near.seen('completed');
    await expect(near.service.execute(key, () => 'never')).resolves.toMatchObject({
      value: 'paid',
      replayed: true,
    });
  });

  it('the record is done before the answer is given', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const running = far.service.execute(key, () => gate.promise);
    await far.seen('started');
    proxy.delay(150, 'up');
    gate.resolve('paid');
    await running;
    await expect(near.service.inspect(key)).resolves.toMatchObject({ state: 'done' });
  });

  it('no release is sent while a renewal is on its way', async () => {
    const key = freshKey();
    const gate = deferred();
    const store = far.backend.idempotency;
    const [renew, release] = [store.renew.bind(store), store.release.bind(store)];
    let onTheirWay = 0;
    const atRelease: number[] = [];
    const renewing = jest.spyOn(store, 'renew').mockImplementation((...args) => {
      onTheirWay++;
      return renew(...args).finally(() => onTheirWay--);
    });
    jest.spyOn(store, 'release').mockImplementation((...args) => {
      atRelease.push(onTheirWay);
      return release(...args);
    });
    const running = far.service.execute(key, () => gate.promise, { lease: 2_000 });
    await far.seen('started');
    proxy.delay(200);
    await waitFor(() => renewing.mock.calls.length > 0 && onTheirWay > 0, { everyMs: 1, what: 'a renewal' });
    gate.reject(new Error('declined'));
    await expect(running).rejects.toThrow('declined');
    await waitFor(() => atRelease.length > 0);
    expect(atRelease).toEqual([0]);
    await waitFor(async () => (await near.service.inspect(key)) === null, { what: 'the key to be free' });
    expect(renewing).toHaveBeenCalledTimes(1);
  });

  it('a completion whose answer was lost is known again', async () => {
    const key = freshKey();
    const gate = deferred<string>();
    const running = far.service.execute(key, () => gate.promise);
    await far.seen('started');
    proxy.dropReplies(1);
    gate.resolve('paid');
    await expect(running).resolves.toEqual({ value: 'paid', replayed: false, attempt: 1 });
    await far.seen('completed');
    expect(far.events.some(({ type }) => type === 'lost')).toBe(false);
    await expect(near.service.execute(key, () => 'never')).resolves.toMatchObject({ value: 'paid' });
  });

  it('a begin whose answer was lost is known again: the call runs, as attempt 1', async () => {
    proxy.dropReplies(1);
    await expect(far.service.execute(freshKey(), () => 'paid')).resolves.toEqual({
      value: 'paid',
      replayed: false,
      attempt: 1,
    });
  });

  it('I30: a begin that was applied but never answered leaves no owner behind', async () => {
    const key = freshKey();
    const task = jest.fn();
    proxy.dropReplies();
    const given = expect(far.service.execute(key, task)).rejects.toEqual(code('STORE_UNAVAILABLE'));
    await waitFor(() => near.service.inspect(key), { everyMs: 1, what: 'the begin to be applied' });
    await given;
    expect(task).not.toHaveBeenCalled();
    proxy.pass();
    await waitFor(async () => (await near.service.inspect(key)) === null, {
      what: 'the begin to be abandoned',
    });
    await expect(near.service.execute(key, () => 'ok')).resolves.toEqual({
      value: 'ok',
      replayed: false,
      attempt: 1,
    });
  });

  it('a release whose answer was lost frees the key, and nothing late brings it back', async () => {
    const key = freshKey();
    const gate = deferred();
    const running = far.service.execute(key, () => gate.promise, { lease: 500 });
    await far.seen('started');
    const renew = jest.spyOn(far.backend.idempotency, 'renew');
    proxy.dropReplies(1);
    // that reply is a renewal's
    await waitFor(() => renew.mock.calls.length >= 2, { what: 'a renewal after the lost one' });
    proxy.dropReplies(1);
    gate.reject(new Error('declined'));
    await expect(running).rejects.toThrow('declined');
    await waitFor(async () => (await near.service.inspect(key)) === null, { what: 'the key to be free' });
    await expect(near.service.execute(key, () => 'ok')).resolves.toMatchObject({ value: 'ok', attempt: 1 });
  });

  it.each([3_600_000, -3_600_000])(
    'I18: a process whose clock is %d ms off makes no difference',
    async (offset) => {
      const [key, other] = [freshKey(), freshKey()];
      const skewed = await child({ CLOCK_OFFSET: String(offset) });
      const gate = deferred<string>();
      const running = near.service.execute(key, () => gate.promise);
      await near.seen('started');
      skewed.send({ type: 'run', key });
      await skewed.next({ type: 'error', code: 'IDEMPOTENCY_IN_PROGRESS' });
      gate.resolve('paid');
      await running;
      skewed.send({ type: 'run', key });
      await expect(skewed.next({ type: 'result' })).resolves.toMatchObject({ value: 'paid', replayed: true });

      skewed.send({ type: 'run', key: other });
      await skewed.next({ type: 'running', attempt: 1 });
      await expect(near.service.execute(other, () => 'never')).rejects.toEqual(
        code('IDEMPOTENCY_IN_PROGRESS'),
      );
      expect((await near.service.inspect(other))!.leaseMs).toBeLessThanOrEqual(30_000);
      skewed.send({ type: 'finish', value: 'skewed' });
      await skewed.next({ type: 'result' });
      await expect(near.service.execute(other, () => 'never')).resolves.toMatchObject({ value: 'skewed' });
    },
  );
});
