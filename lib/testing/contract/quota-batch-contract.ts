import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { QuotaBatch, QuotaCall, QuotaReply } from '../../backend/backend.js';
import { newKey, TIMEOUT_MS, type ContractTestApi, type Subject } from './contract-suite.js';
import { batchOf } from './quota-calls.js';

/** Many calls on one quota in one step. */
export function quotaBatchContract({ describe, it }: ContractTestApi, subject: Subject): void {
  const send = (batch: QuotaBatch): Promise<QuotaReply[]> =>
    subject().backend.quotas.carryOut(batch, TIMEOUT_MS);
  const left = (key: string): Promise<number | null> => subject().backend.quotas.remaining(key, TIMEOUT_MS);
  const deduct = (amount: number, operationId?: string): QuotaCall => ({
    kind: 'deduct',
    amount,
    ...(operationId === undefined ? {} : { operationId }),
  });
  const granted = (amount: number, remaining: number, replayed = false): QuotaReply => ({
    status: 'granted',
    amount,
    remaining,
    replayed,
  });
  const newQuota = async (amount: number): Promise<string> => {
    const key = newKey('quota');
    await subject().backend.quotas.init(key, amount, TIMEOUT_MS);
    return key;
  };

  describe('many calls in one batch', () => {
    it('Q9: are served in order, and one that cannot be met does not stop a later, smaller one', async () => {
      const key = await newQuota(8);
      assert.deepEqual(await send(batchOf(key, [deduct(5), deduct(5), deduct(1), deduct(3), deduct(2)])), [
        granted(5, 3),
        { status: 'exceeded', remaining: 3 },
        granted(1, 2),
        { status: 'exceeded', remaining: 2 },
        granted(2, 0),
      ]);
      assert.equal(await left(key), 0);
    });

    it('a sum beyond 2^53 is met as far as it can be', async () => {
      const key = await newQuota(Number.MAX_SAFE_INTEGER);
      const most = Number.MAX_SAFE_INTEGER;
      assert.deepEqual(await send(batchOf(key, [deduct(most - 1), deduct(most), deduct(1)])), [
        granted(most - 1, 1),
        { status: 'exceeded', remaining: 1 },
        granted(1, 0),
      ]);
    });

    it('with and without ids, grants and refunds among them: each as if alone', async () => {
      const key = await newQuota(10);
      const id = (): string => randomUUID();
      const [known, fresh, added, never] = [id(), id(), id(), id()];
      await send(batchOf(key, [deduct(2, known)]));
      const grant: QuotaCall = { kind: 'grant', amount: 5, operationId: added };
      const replies = await send(
        batchOf(key, [
          deduct(3),
          deduct(2, known),
          deduct(4, fresh),
          deduct(2),
          grant,
          deduct(1, known),
          deduct(4, fresh),
          { kind: 'refund', operationId: fresh },
          deduct(4, fresh),
          { kind: 'refund', operationId: fresh },
          { kind: 'refund', operationId: never },
          deduct(1, never),
          grant,
          { kind: 'grant', amount: 1 },
        ]),
      );
      assert.deepEqual(replies, [
        granted(3, 5),
        granted(2, 8, true),
        granted(4, 1),
        { status: 'exceeded', remaining: 1 },
        granted(5, 6),
        { status: 'otherAmount', amount: 2 },
        granted(4, 1, true),
        { status: 'givenBack', amount: 4, remaining: 10, replayed: false },
        { status: 'refunded', amount: 4 },
        { status: 'givenBack', amount: 4, remaining: 10, replayed: true },
        { status: 'unknown' },
        { status: 'refunded', amount: 0 },
        granted(5, 6, true),
        granted(1, 11),
      ]);
      assert.equal(await left(key), 11);
    });

    it('a quota that is not there is not found by those who take, and created by the first who adds', async () => {
      const key = newKey('quota');
      assert.deepEqual(await send(batchOf(key, [deduct(1), deduct(1)])), [
        { status: 'notFound' },
        { status: 'notFound' },
      ]);
      const id = randomUUID();
      assert.deepEqual(
        await send(batchOf(key, [deduct(1, id), { kind: 'grant', amount: 2 }, deduct(2, id)])),
        [{ status: 'notFound' }, granted(2, 2), granted(2, 0)],
      );
      assert.equal(await left(key), 0);
    });

    it('what would pass 2^53 - 1 is refused, and the rest is carried out', async () => {
      const key = await newQuota(Number.MAX_SAFE_INTEGER - 1);
      const grant: QuotaCall = { kind: 'grant', amount: 2 };
      assert.deepEqual(await send(batchOf(key, [grant, deduct(1), grant])), [
        { status: 'unusable', why: 'tooLarge' },
        granted(1, Number.MAX_SAFE_INTEGER - 2),
        granted(2, Number.MAX_SAFE_INTEGER),
      ]);
    });

    it('Q8: a batch that comes again is carried out once: the same answers', async () => {
      for (const more of [[], [deduct(1, randomUUID()), { kind: 'grant', amount: 1 } as const]]) {
        const key = await newQuota(5);
        const batch = batchOf(key, [deduct(3), deduct(3), deduct(2), ...more]);
        const first = await send(batch);
        const before = await left(key);
        const replayed = first.map((reply) =>
          reply.status === 'granted' ? { ...reply, replayed: true } : reply,
        );
        const again = await send(batch);
        // an operation that was refused is asked for anew: its refusal is not kept
        assert.deepEqual(again.slice(0, 3), replayed.slice(0, 3));
        if (more.length > 0) assert.deepEqual(again[4], replayed[4]);
        assert.equal(await left(key), more.length > 0 ? before! - 1 : before);
      }
    });

    it('Q8: a late copy of a batch whose sender has sent another since does nothing', async () => {
      const key = await newQuota(10);
      const sender = randomUUID();
      const late = batchOf(key, [deduct(1)], { sender, number: 7 });
      const mixed = batchOf(key, [deduct(1), deduct(1, randomUUID())], { sender, number: 8 });
      await send(batchOf(key, [deduct(2)], { sender, number: 9 }));
      assert.deepEqual(await send(late), [{ status: 'overtaken' }]);
      assert.deepEqual(await send(mixed), [{ status: 'overtaken' }, { status: 'overtaken' }]);
      assert.deepEqual(await send(batchOf(key, [deduct(1)], { number: 7 })), [granted(1, 7)]);
      assert.equal(await left(key), 7);
    });

    it('512 calls, with ids and without', async () => {
      const key = await newQuota(1_000);
      const calls = Array.from({ length: 512 }, (_, at) => deduct(2, at % 2 ? randomUUID() : undefined));
      const replies = await send(batchOf(key, calls));
      assert.equal(replies.filter(({ status }) => status === 'granted').length, 500);
      assert.equal(await left(key), 0);
    });
  });
}
