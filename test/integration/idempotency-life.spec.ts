import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';
import { deferred, freshKey, Sites, type Site } from './idempotency-fixture.js';

const code = (name: string) => expect.objectContaining({ code: name });

describe('idempotency records on a real Redis', () => {
  const sites = new Sites();
  let server: RedisServer;
  let one: Site;
  let two: Site;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    one = await sites.start(server.url);
    two = await sites.start(server.url);
  });
  afterEach(() => sites.closeAll());

  describe('the life of a record', () => {
    it('a run longer than its lease is renewed: nobody else begins beside it', async () => {
      const key = freshKey();
      const gate = deferred<string>();
      let aborted = false;
      const running = one.service.execute(
        key,
        ({ signal }) => {
          signal.addEventListener('abort', () => (aborted = true));
          return gate.promise;
        },
        { lease: 300 },
      );
      await one.seen('started');
      const startedAt = Date.now();
      while (Date.now() - startedAt < 1_200) {
        await expect(two.service.execute(key, () => 'never')).rejects.toEqual(
          code('IDEMPOTENCY_IN_PROGRESS'),
        );
      }
      gate.resolve('done');
      await expect(running).resolves.toEqual({ value: 'done', replayed: false, attempt: 1 });
      expect(aborted).toBe(false);
    });

    it('I24: a redelivery in the last third of the ttl is a replay; after the ttl it runs', async () => {
      const key = freshKey();
      const admin = server.client();
      await one.service.execute(key, () => 'success', { ttl: 1_500, lease: 200 });
      const { recordKey } = (await one.service.inspect(key))!;
      await waitFor(async () => (await admin.pttl(recordKey)) < 1_000, {
        what: 'a third of the ttl to pass',
      });
      await expect(two.service.execute(key, () => 'never')).resolves.toMatchObject({
        value: 'success',
        replayed: true,
      });
      await waitFor(async () => (await admin.exists(recordKey)) === 0, { what: 'the ttl to pass' });
      await expect(two.service.execute(key, () => 'again')).resolves.toMatchObject({
        value: 'again',
        attempt: 1,
      });
    });

    it('I24: ttl 72h is 72 hours in the store', async () => {
      const key = freshKey();
      const admin = server.client();
      await one.service.execute(key, () => 'success', { ttl: '72h' });
      const left = await admin.pttl((await one.service.inspect(key))!.recordKey);
      expect(left).toBeGreaterThan(71.9 * 3_600_000);
      expect(left).toBeLessThanOrEqual(72 * 3_600_000);
    });

    it('I16: a record that vanishes during the run is written at its completion all the same', async () => {
      const key = freshKey();
      const gate = deferred<string>();
      const running = one.service.execute(key, () => gate.promise);
      await one.seen('started');
      await expect(two.service.forget(key)).resolves.toBe(true);
      gate.resolve('done');
      await expect(running).resolves.toMatchObject({ value: 'done', replayed: false });
      await expect(two.service.execute(key, () => 'never')).resolves.toMatchObject({
        value: 'done',
        replayed: true,
      });
    });

    it('I31: a renewal that finds the record gone writes it again and aborts nothing', async () => {
      const key = freshKey();
      const gate = deferred<string>();
      let aborted = false;
      const running = one.service.execute(
        key,
        ({ signal }) => {
          signal.addEventListener('abort', () => (aborted = true));
          return gate.promise;
        },
        { lease: 300, fingerprint: 'f' },
      );
      await one.seen('started');
      await two.service.forget(key);
      await waitFor(() => two.service.inspect(key), { what: 'the record to be written again' });
      await expect(two.service.execute(key, () => 'never', { fingerprint: 'g' })).rejects.toEqual(
        code('IDEMPOTENCY_MISMATCH'),
      );
      gate.resolve('done');
      await expect(running).resolves.toMatchObject({ value: 'done', attempt: 1 });
      expect(aborted).toBe(false);
      await expect(two.service.execute(key, () => 'never')).resolves.toMatchObject({ value: 'done' });
    });

    it('I17: a damaged record, or one of an unknown version, counts as done: nothing runs again', async () => {
      const admin = server.client();
      const damages: Array<(recordKey: string, payload: Buffer) => Promise<unknown>> = [
        (recordKey) => admin.hset(recordKey, 'payload', 'garbage'),
        (recordKey) => admin.hset(recordKey, 'payload', ''),
        (recordKey) => admin.hdel(recordKey, 'payload'),
        (recordKey, payload) => {
          payload[0] = 99;
          return admin.hset(recordKey, 'payload', payload);
        },
      ];
      for (const damage of damages) {
        const key = freshKey();
        await one.service.execute(key, () => 'done');
        const { recordKey } = (await one.service.inspect(key))!;
        await damage(recordKey, (await admin.hgetBuffer(recordKey, 'payload'))!);
        const again = jest.fn();
        await expect(two.service.execute(key, again)).rejects.toEqual(code('IDEMPOTENCY_UNREPLAYABLE'));
        expect(again).not.toHaveBeenCalled();
        await expect(two.service.inspect(key)).resolves.toMatchObject({ state: 'done', replayable: false });
      }
    });

    it('inspect and forget take the business key and the record key', async () => {
      const key = freshKey();
      await one.service.execute(key, () => 'done');
      const info = (await one.service.inspect(key))!;
      expect(info).toEqual({
        recordKey: expect.stringMatching(/^idem:key:[0-9a-f]{64}$/),
        state: 'done',
        attempt: 1,
        leaseMs: 0,
        replayable: true,
      });
      await expect(two.service.inspect(info.recordKey)).resolves.toEqual(info);
      await expect(two.service.forget(info.recordKey)).resolves.toBe(true);
      await expect(two.service.forget(key)).resolves.toBe(false);
      await expect(two.service.inspect(key)).resolves.toBeNull();
    });

    it('a key that is none, and options that are none, are refused before anything runs', async () => {
      const task = jest.fn();
      await expect(one.service.execute('', task)).rejects.toEqual(code('IDEMPOTENCY_KEY'));
      await expect(one.service.execute(undefined as never, task)).rejects.toEqual(code('IDEMPOTENCY_KEY'));
      await expect(one.service.execute(freshKey(), task, { ttl: 'soon' as never })).rejects.toEqual(
        code('LOCK_CONFIG'),
      );
      await expect(one.service.execute(freshKey(), task, { header: 'x' } as never)).rejects.toEqual(
        code('LOCK_CONFIG'),
      );
      expect(task).not.toHaveBeenCalled();
    });
  });

  describe('closing', () => {
    it('lets runs finish, turns waiters away and refuses new ones', async () => {
      const key = freshKey();
      const gate = deferred<string>();
      const running = one.service.execute(key, () => gate.promise);
      await one.seen('started');
      const options = { onConcurrent: 'wait', waitTimeout: '20s' } as const;
      const waiting = Array.from({ length: 3 }, () => one.service.execute(key, () => 'never', options));
      const turnedAway = expect(Promise.allSettled(waiting)).resolves.toEqual(
        waiting.map(() => ({ status: 'rejected', reason: code('LOCK_CLOSED') })),
      );
      const closed = one.engine.close(10_000);
      await turnedAway;
      await expect(one.service.execute(freshKey(), () => 'never')).rejects.toEqual(code('LOCK_CLOSED'));
      gate.resolve('done');
      await expect(running).resolves.toMatchObject({ value: 'done' });
      await closed;
      await expect(two.service.inspect(key)).resolves.toMatchObject({ state: 'done' });
    });

    it('aborts what is still running when its time is over, and leaves the record to its lease', async () => {
      const key = freshKey();
      const aborted = deferred<unknown>();
      void one.service.execute(key, ({ signal }) => {
        signal.addEventListener('abort', () => aborted.resolve(signal.reason));
        return new Promise(() => undefined);
      });
      await one.seen('started');
      await one.engine.close(1);
      await expect(aborted.promise).resolves.toMatchObject({ code: 'LOCK_LOST', reason: 'shutdown' });
      await expect(two.service.inspect(key)).resolves.toMatchObject({ state: 'pending', attempt: 1 });
    });
  });
});
