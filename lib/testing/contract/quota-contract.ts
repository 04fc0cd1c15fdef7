import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { QuotaReply, QuotaStore } from '../../backend/backend.js';
import { newKey, TIMEOUT_MS, type ContractTestApi, type Subject } from './contract-suite.js';
import { call, carryOutOne } from './quota-calls.js';

/** Taking from and adding to a number, once per operation. */
export function quotaContract({ describe, it }: ContractTestApi, subject: Subject): void {
  const quotas = (): QuotaStore => subject().backend.quotas;
  const deduct = (key: string, amount: number, sent = call()): Promise<QuotaReply> =>
    carryOutOne(quotas(), key, { kind: 'deduct', amount }, sent);
  const grant = (key: string, amount: number, sent = call()): Promise<QuotaReply> =>
    carryOutOne(quotas(), key, { kind: 'grant', amount }, sent);
  const refund = (key: string, operationId: string): Promise<QuotaReply> =>
    carryOutOne(quotas(), key, { kind: 'refund', operationId }, call());
  const left = (key: string): Promise<number | null> => quotas().remaining(key, TIMEOUT_MS);
  const newQuota = async (amount: number): Promise<string> => {
    const key = newKey('quota');
    assert.equal(await quotas().init(key, amount, TIMEOUT_MS), true);
    return key;
  };
  const granted = (amount: number, remaining: number, replayed = false): QuotaReply => ({
    status: 'granted',
    amount,
    remaining,
    replayed,
  });

  describe('init, grant and remaining', () => {
    it('init sets a quota only where there is none', async () => {
      const key = await newQuota(10);
      assert.equal(await quotas().init(key, 99, TIMEOUT_MS), false);
      assert.equal(await left(key), 10);
    });

    it('init does not fill up a quota that is used up', async () => {
      const key = await newQuota(1);
      await deduct(key, 1);
      assert.equal(await left(key), 0);
      assert.equal(await quotas().init(key, 99, TIMEOUT_MS), false);
      assert.equal(await left(key), 0);
    });

    it('a quota that is not there has nothing left, not zero', async () => {
      assert.equal(await left(newKey('quota')), null);
    });

    it('grant creates and adds', async () => {
      const key = newKey('quota');
      assert.deepEqual(await grant(key, 5), granted(5, 5));
      assert.deepEqual(await grant(key, 7), granted(7, 12));
      assert.equal(await left(key), 12);
    });

    it('grant counts an operation once, and refuses its id with another amount', async () => {
      const key = await newQuota(1);
      const id = randomUUID();
      assert.deepEqual(await grant(key, 5, call(id)), granted(5, 6));
      await grant(key, 10);
      assert.deepEqual(await grant(key, 5, call(id)), granted(5, 6, true));
      assert.deepEqual(await grant(key, 6, call(id)), { status: 'otherAmount', amount: 5 });
      assert.equal(await left(key), 16);
    });

    it('keeps large numbers exact', async () => {
      const key = await newQuota(Number.MAX_SAFE_INTEGER - 1);
      assert.deepEqual(await grant(key, 1), granted(1, Number.MAX_SAFE_INTEGER));
      assert.deepEqual(
        await deduct(key, Number.MAX_SAFE_INTEGER - 2),
        granted(Number.MAX_SAFE_INTEGER - 2, 2),
      );
      assert.equal(await left(key), 2);
    });
  });

  describe('deduct', () => {
    it('takes, and tells what is left', async () => {
      const key = await newQuota(10);
      assert.deepEqual(await deduct(key, 1), granted(1, 9));
      assert.deepEqual(await deduct(key, 9), granted(9, 0));
    });

    it('Q6: a quota that is not there is not found, and not created', async () => {
      const key = newKey('quota');
      assert.deepEqual(await deduct(key, 1), { status: 'notFound' });
      assert.equal(await left(key), null);
    });

    it('Q9: refuses what is more than is left, and serves a smaller request', async () => {
      const key = await newQuota(3);
      assert.deepEqual(await deduct(key, 5), { status: 'exceeded', remaining: 3 });
      assert.deepEqual(await deduct(key, 1), granted(1, 2));
    });

    it('never goes below zero, with many at once', async () => {
      const key = await newQuota(30);
      const replies = await Promise.all(Array.from({ length: 50 }, () => deduct(key, 1)));
      assert.equal(replies.filter(({ status }) => status === 'granted').length, 30);
      assert.equal(await left(key), 0);
    });

    it('Q3: takes once for an operation id: the first receipt, replayed', async () => {
      const key = await newQuota(10);
      const id = randomUUID();
      assert.deepEqual(await deduct(key, 2, call(id)), granted(2, 8));
      await deduct(key, 1);
      assert.deepEqual(await deduct(key, 2, call(id)), granted(2, 8, true));
      assert.equal(await left(key), 7);
    });

    it('replays an operation when nothing is left any more', async () => {
      const key = await newQuota(1);
      const id = randomUUID();
      await deduct(key, 1, call(id));
      assert.deepEqual(await deduct(key, 1, call(id)), granted(1, 0, true));
    });

    it('Q17: takes once for a call id, without an operation id', async () => {
      const key = await newQuota(10);
      const one = call();
      assert.deepEqual(await deduct(key, 2, one), granted(2, 8));
      assert.deepEqual(await deduct(key, 2, one), granted(2, 8, true));
      assert.deepEqual(await deduct(key, 2, call()), granted(2, 6));
    });

    it('Q15: refuses an id with another amount, and takes nothing', async () => {
      const key = await newQuota(10);
      const id = randomUUID();
      await deduct(key, 2, call(id));
      assert.deepEqual(await deduct(key, 3, call(id)), { status: 'otherAmount', amount: 2 });
      assert.equal(await left(key), 8);
    });

    it('does not keep a refusal: Q16, after a restock the same id is granted', async () => {
      const key = await newQuota(1);
      const id = randomUUID();
      assert.deepEqual(await deduct(key, 2, call(id)), { status: 'exceeded', remaining: 1 });
      await grant(key, 4);
      assert.deepEqual(await deduct(key, 2, call(id)), granted(2, 3));
    });

    it('knows an id only beside its own quota', async () => {
      const [one, other] = [await newQuota(10), await newQuota(10)];
      const id = randomUUID();
      await deduct(one, 2, call(id));
      assert.deepEqual(await deduct(other, 3, call(id)), granted(3, 7));
    });
  });

  describe('refund', () => {
    it('Q4: gives back once; again: the first receipt, replayed', async () => {
      const key = await newQuota(10);
      const id = randomUUID();
      await deduct(key, 4, call(id));
      assert.deepEqual(await refund(key, id), {
        status: 'givenBack',
        amount: 4,
        remaining: 10,
        replayed: false,
      });
      await deduct(key, 1);
      assert.deepEqual(await refund(key, id), {
        status: 'givenBack',
        amount: 4,
        remaining: 10,
        replayed: true,
      });
      assert.equal(await left(key), 9);
    });

    it('Q4: an unknown or refused operation: nothing', async () => {
      const key = await newQuota(3);
      const id = randomUUID();
      assert.deepEqual(await refund(key, id), { status: 'unknown' });
      await deduct(key, 5, call(id));
      assert.deepEqual(await refund(key, id), { status: 'unknown' });
      assert.equal(await left(key), 3);
    });

    it('Q15: an operation that was refunded before it took anything never takes: a late copy is refused', async () => {
      const key = await newQuota(10);
      const id = randomUUID();
      assert.deepEqual(await refund(key, id), { status: 'unknown' });
      assert.deepEqual(await deduct(key, 4, call(id)), { status: 'refunded', amount: 0 });
      assert.deepEqual(await refund(key, id), { status: 'unknown' });
      assert.equal(await left(key), 10);
    });

    it('Q15: a refunded operation is not taken again', async () => {
      const key = await newQuota(10);
      const id = randomUUID();
      await deduct(key, 4, call(id));
      await refund(key, id);
      assert.deepEqual(await deduct(key, 4, call(id)), { status: 'refunded', amount: 4 });
      assert.equal(await left(key), 10);
    });

    it('keeps the ids of grants and of deductions apart', async () => {
      const key = newKey('quota');
      const id = randomUUID();
      await grant(key, 10, call(id));
      assert.deepEqual(await deduct(key, 3, call(id)), granted(3, 7));
      assert.deepEqual(await refund(key, id), {
        status: 'givenBack',
        amount: 3,
        remaining: 10,
        replayed: false,
      });
      assert.deepEqual(await grant(key, 10, call(id)), granted(10, 10, true));
    });

    it('what was granted is not what an operation took: nothing', async () => {
      const key = await newQuota(10);
      const id = randomUUID();
      await grant(key, 5, call(id));
      assert.deepEqual(await refund(key, id), { status: 'unknown' });
      assert.equal(await left(key), 15);
    });
  });
}
