import { HttpException, NotFoundException } from '@nestjs/common';
import { LockLostError } from '../../lib/errors.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';
import { deferred, freshKey, Sites, type Site } from './idempotency-fixture.js';

const code = (name: string) => expect.objectContaining({ code: name });

describe('idempotency on a real Redis', () => {
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

  describe('one key', () => {
    it('I1: of 200 parallel requests from two processes one runs, the others are refused', async () => {
      const key = freshKey();
      const gate = deferred<string>();
      let runs = 0;
      const task = (): Promise<string> => {
        runs++;
        return gate.promise;
      };
      const all = Array.from({ length: 200 }, (_, index) =>
        (index % 2 ? one : two).service.execute(key, task),
      );
      const settled = Promise.allSettled(all);
      await waitFor(() => one.events.length + two.events.length === 200, { what: '200 answers' });
      gate.resolve('paid');
      const results = await settled;
      expect(runs).toBe(1);
      expect(results.filter(({ status }) => status === 'fulfilled')).toEqual([
        { status: 'fulfilled', value: { value: 'paid', replayed: false, attempt: 1 } },
      ]);
      const refused = results.filter((result) => result.status === 'rejected').map(({ reason }) => reason);
      expect(refused).toEqual(Array.from({ length: 199 }, () => code('IDEMPOTENCY_IN_PROGRESS')));
      expect(refused[0].leaseMs).toBeGreaterThan(0);
      expect(refused[0].leaseMs).toBeLessThanOrEqual(30_000);
    });

    it('I1: of 200 that wait one runs and the others get its reply', async () => {
      const key = freshKey();
      const gate = deferred<string>();
      let runs = 0;
      const task = (): Promise<string> => {
        runs++;
        return gate.promise;
      };
      const options = { onConcurrent: 'wait', waitTimeout: '20s' } as const;
      const all = Array.from({ length: 200 }, (_, index) =>
        (index % 2 ? one : two).service.execute(key, task, options),
      );
      await waitFor(() => runs === 1);
      gate.resolve('paid');
      const results = await Promise.all(all);
      expect(runs).toBe(1);
      expect(results.filter(({ replayed }) => replayed)).toHaveLength(199);
      expect(new Set(results.map(({ value }) => value))).toEqual(new Set(['paid']));
    });

    it('waiting costs the store next to nothing: a hundred waiters of one process ask like one', async () => {
      const key = freshKey();
      const gate = deferred();
      const running = one.service.execute(key, () => gate.promise);
      await one.seen('started');
      const asked = jest.spyOn(two.backend.idempotency, 'begin');
      const waiting = Array.from({ length: 100 }, () =>
        two.service.execute(key, () => 'never', { onConcurrent: 'wait', waitTimeout: '700ms' }),
      );
      const results = await Promise.allSettled(waiting);
      expect(
        results.every((r) => r.status === 'rejected' && r.reason.code === 'IDEMPOTENCY_IN_PROGRESS'),
      ).toBe(true);
      // one each at first, then one poller
      expect(asked.mock.calls.length).toBeLessThan(130);
      gate.resolve();
      await running;
    });

    it('I2: undefined, null, 0, false, the empty string and bytes are replayed as they were', async () => {
      for (const value of [
        undefined,
        null,
        0,
        false,
        '',
        NaN,
        'success',
        Buffer.from([0, 255]),
        { a: [1, null] },
      ]) {
        const key = freshKey();
        await expect(one.service.execute(key, () => value)).resolves.toEqual({
          value,
          replayed: false,
          attempt: 1,
        });
        await expect(two.service.execute(key, () => 'other')).resolves.toEqual({
          value,
          replayed: true,
          attempt: 1,
        });
      }
    });

    it('I3: a failed run frees the key, and its error comes through untouched', async () => {
      const key = freshKey();
      const error = new Error('declined');
      await expect(one.service.execute(key, () => Promise.reject(error), { fingerprint: 1 })).rejects.toBe(
        error,
      );
      await expect(one.service.inspect(key)).resolves.toBeNull();
      await expect(two.service.execute(key, () => 'ok', { fingerprint: 2 })).resolves.toMatchObject({
        attempt: 1,
      });
    });

    it('I6: a value that JSON cannot express goes to the first caller, and the task never runs again', async () => {
      const circular: Record<string, unknown> = {};
      circular.self = circular;
      for (const value of [{ n: 1n }, circular]) {
        const key = freshKey();
        await expect(one.service.execute(key, () => value)).resolves.toEqual({
          value,
          replayed: false,
          attempt: 1,
        });
        const again = jest.fn();
        await expect(two.service.execute(key, again)).rejects.toEqual(code('IDEMPOTENCY_UNREPLAYABLE'));
        expect(again).not.toHaveBeenCalled();
        await expect(two.service.inspect(key)).resolves.toMatchObject({ state: 'done', replayable: false });
      }
    });

    it('I9: another request under the same key is refused, while the first runs and when it is done', async () => {
      const key = freshKey();
      const gate = deferred();
      const running = one.service.execute(key, () => gate.promise, { fingerprint: { a: 1, b: 2 } });
      await one.seen('started');
      const other = () => two.service.execute(key, () => 'never', { fingerprint: { a: 1, b: 3 } });
      await expect(other()).rejects.toEqual(code('IDEMPOTENCY_MISMATCH'));
      gate.resolve();
      await running;
      await expect(other()).rejects.toEqual(code('IDEMPOTENCY_MISMATCH'));
      await expect(
        two.service.execute(key, () => 'never', { fingerprint: { b: 2, a: 1 } }),
      ).resolves.toMatchObject({ replayed: true });
    });

    it('I25: with scope two owners of one key both run, and nobody gets the other one’s reply', async () => {
      const key = freshKey();
      const run = (scope: string) => one.service.execute(key, () => `for ${scope}`, { scope });
      expect([await run('ann'), await run('bob'), await run('ann')]).toEqual([
        { value: 'for ann', replayed: false, attempt: 1 },
        { value: 'for bob', replayed: false, attempt: 1 },
        { value: 'for ann', replayed: true, attempt: 1 },
      ]);
    });

    it('I26: when the first one fails, exactly one of those that wait runs', async () => {
      const key = freshKey();
      const gate = deferred();
      const options = { onConcurrent: 'wait', waitTimeout: '20s' } as const;
      const first = one.service.execute(key, () => gate.promise);
      await one.seen('started');
      let runs = 0;
      const waiting = Array.from({ length: 30 }, (_, index) =>
        (index % 2 ? one : two).service.execute(key, () => `run ${++runs}`, options),
      );
      gate.reject(new Error('declined'));
      await expect(first).rejects.toThrow('declined');
      const results = await Promise.all(waiting);
      expect(runs).toBe(1);
      expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
      expect(new Set(results.map(({ value }) => value))).toEqual(new Set(['run 1']));
    });

    it('I28: nested runs of other keys are independent; of the same key the inner one is refused', async () => {
      const [outer, inner] = [freshKey(), freshKey()];
      await expect(
        one.service.execute(outer, async () => (await one.service.execute(inner, () => 'inner')).value),
      ).resolves.toMatchObject({ value: 'inner' });
      const key = freshKey();
      const options = { onConcurrent: 'wait', waitTimeout: 200 } as const;
      await expect(
        one.service.execute(key, () => one.service.execute(key, () => 'never', options)),
      ).rejects.toEqual(code('IDEMPOTENCY_IN_PROGRESS'));
    });
  });

  describe('what becomes of the record of a failed run', () => {
    it('I23: a value that isSuccess calls a failure is not stored: the redelivery runs', async () => {
      const key = freshKey();
      const isSuccess = (value: unknown) => value !== 'fail';
      await expect(one.service.execute(key, () => 'fail', { isSuccess })).resolves.toMatchObject({
        value: 'fail',
      });
      await expect(one.service.execute(key, () => 'success', { isSuccess })).resolves.toEqual({
        value: 'success',
        replayed: false,
        attempt: 1,
      });
    });

    it("'hold' keeps it pending until the lease ends; then the next run is attempt 2", async () => {
      const key = freshKey();
      const fail = () => Promise.reject(new Error('unclear'));
      await expect(one.service.execute(key, fail, { onError: 'hold', lease: 400 })).rejects.toThrow(
        'unclear',
      );
      await expect(two.service.execute(key, () => 'never')).rejects.toEqual(code('IDEMPOTENCY_IN_PROGRESS'));
      await expect(
        two.service.execute(key, () => 'ok', { onConcurrent: 'wait', waitTimeout: '10s' }),
      ).resolves.toEqual({ value: 'ok', replayed: false, attempt: 2 });
      expect(two.events.map(({ type }) => type)).toEqual(['inProgress', 'takeover', 'completed']);
    });

    it("'store' keeps an HttpException, of Nest's class, for every repeat; another error leaves a tombstone", async () => {
      class Declined extends NotFoundException {
        readonly declineCode = 51;
      }
      const key = freshKey();
      const options = { onError: 'store' } as const;
      const error = new Declined({ reason: 'no such order' });
      await expect(one.service.execute(key, () => Promise.reject(error), options)).rejects.toBe(error);
      const repeat = await two.service.execute(key, () => 'never', options).catch((again: unknown) => again);
      expect(repeat).toBeInstanceOf(NotFoundException);
      expect(repeat).toMatchObject({ name: 'Declined', declineCode: 51, message: error.message });
      expect((repeat as HttpException).getResponse()).toEqual({ reason: 'no such order' });
      expect((repeat as HttpException).getStatus()).toBe(404);

      const other = freshKey();
      await expect(one.service.execute(other, () => Promise.reject(new Error('x')), options)).rejects.toThrow(
        'x',
      );
      await expect(two.service.execute(other, () => 'never')).rejects.toEqual(
        code('IDEMPOTENCY_UNREPLAYABLE'),
      );
    });

    it('a function decides by the error; when it fails itself, nothing is freed', async () => {
      const onError = (error: unknown) => {
        if ((error as Error).message === 'bug') throw new Error('in onError');
        return (error as Error).message as 'release';
      };
      const fail = async (message: string) => {
        const key = freshKey();
        await expect(
          one.service.execute(key, () => Promise.reject(new Error(message)), { onError }),
        ).rejects.toThrow(message);
        return one.service.inspect(key);
      };
      expect(await fail('release')).toBeNull();
      expect(await fail('store')).toMatchObject({ state: 'done', replayable: false });
      expect(await fail('hold')).toMatchObject({ state: 'pending' });
      expect(await fail('nonsense')).toMatchObject({ state: 'pending' });
      expect(await fail('bug')).toMatchObject({ state: 'pending' });
    });

    it('a lost lock never frees the key, whatever onError says', async () => {
      const lost = new LockLostError(['lock:order:1'], {
        reason: 'taken',
        token: 't',
        fencingToken: 1,
        heldMs: 1,
      });
      for (const error of [lost, new HttpException('mapped', 500, { cause: lost })]) {
        const key = freshKey();
        await expect(one.service.execute(key, () => Promise.reject(error))).rejects.toBe(error);
        await expect(one.service.inspect(key)).resolves.toMatchObject({ state: 'pending' });
      }
    });
  });
});
