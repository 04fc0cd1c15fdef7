import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { OperationRef, QuotaReply, QuotaStore } from '../../backend/backend.js';
import { LONG_MS, newKey, TIMEOUT_MS, type ContractTestApi, type Subject } from './contract-suite.js';
import { batchOf } from './quota-calls.js';

const newOperation = (): OperationRef => ({ operationId: randomUUID(), operationTtlMs: LONG_MS });

/** What a quota that is spread over shards asks of its store. */
export function quotaShardContract({ describe, it }: ContractTestApi, subject: Subject): void {
  const quotas = (): QuotaStore => subject().backend.quotas;
  const newShard = async (share: number): Promise<string> => {
    const key = newKey('shard');
    assert.equal(await quotas().initShard(key, `plan:${share}`, share, TIMEOUT_MS), `plan:${share}`);
    return key;
  };
  const left = (key: string): Promise<number | null> => quotas().remaining(key, TIMEOUT_MS);
  const version = async (key: string): Promise<number> => (await quotas().look(key, TIMEOUT_MS))!.version;
  const deduct = (key: string, op: OperationRef, generation: number, amount: number): Promise<QuotaReply> =>
    quotas().deductAt(key, op, generation, amount, TIMEOUT_MS);
  const atHome = async (key: string, { operationId }: OperationRef, amount: number): Promise<QuotaReply> =>
    (
      await quotas().carryOut(
        batchOf(key, [{ kind: 'deduct', amount, operationId }], { isShard: true }),
        TIMEOUT_MS,
      )
    )[0]!;

  describe('a shard', () => {
    it('adds its share once, and tells the plan that stands', async () => {
      const key = await newShard(5);
      assert.equal(await quotas().initShard(key, 'other', 9, TIMEOUT_MS), 'plan:5');
      assert.equal(await left(key), 5);
      assert.equal((await quotas().look(key, TIMEOUT_MS))?.plan, 'plan:5');
      assert.equal(await quotas().look(newKey('shard'), TIMEOUT_MS), null);
    });

    it('a share of 0 is a shard too, and a share is added to what was granted before', async () => {
      assert.equal(await left(await newShard(0)), 0);
      const key = newKey('shard');
      await quotas().carryOut(batchOf(key, [{ kind: 'grant', amount: 2 }], { isShard: true }), TIMEOUT_MS);
      await quotas().initShard(key, 'plan', 3, TIMEOUT_MS);
      assert.equal(await left(key), 5);
    });

    it('Q12: every increase raises its version, and nothing else does', async () => {
      const key = await newShard(5);
      const [op, whole, part] = [newOperation(), newOperation(), newOperation()];
      const before = await version(key);
      await atHome(key, op, 1);
      await deduct(key, whole, 1, 1);
      await deduct(key, newOperation(), 1, 9);
      await quotas().takePart(key, part, 1, 1, TIMEOUT_MS);
      assert.equal(await version(key), before);
      await quotas().giveBackAt(key, whole, 1, TIMEOUT_MS);
      assert.equal(await version(key), before + 1);
      await quotas().giveBackAt(key, part, 1, TIMEOUT_MS);
      assert.equal(await version(key), before + 2);
      const { operationId } = op;
      await quotas().carryOut(batchOf(key, [{ kind: 'refund', operationId }], { isShard: true }), TIMEOUT_MS);
      assert.equal(await version(key), before + 3);
      await quotas().carryOut(batchOf(key, [{ kind: 'grant', amount: 1 }], { isShard: true }), TIMEOUT_MS);
      assert.equal(await version(key), before + 4);
      await quotas().giveBackAt(key, whole, 1, TIMEOUT_MS);
      assert.equal(await version(key), before + 4);
    });
  });

  describe('an operation on its way', () => {
    it('moves only from where it is', async () => {
      const [key, op] = [await newShard(1), newOperation()];
      const move = (from: string, to: string): Promise<string> =>
        quotas().move(key, op, from, to, TIMEOUT_MS);
      assert.equal(await move('at:1:1', 'at:2:2'), '');
      assert.equal(await move('', 'at:1:1'), 'at:1:1');
      assert.equal(await move('', 'at:2:1'), 'at:1:1');
      assert.equal(await move('at:1:1', 'at:2:2'), 'at:2:2');
      // resent: it stands where it was to go
      assert.equal(await move('at:1:1', 'at:2:2'), 'at:2:2');
      assert.deepEqual(await atHome(key, op, 1), { status: 'elsewhere', place: 'at:2:2' });
      const { operationId } = op;
      assert.deepEqual(await quotas().carryOut(batchOf(key, [{ kind: 'refund', operationId }]), TIMEOUT_MS), [
        { status: 'elsewhere', place: 'at:2:2' },
      ]);
      assert.equal(await left(key), 1);
    });

    it('does not move once its home has granted it', async () => {
      const [key, op] = [await newShard(3), newOperation()];
      await atHome(key, op, 1);
      assert.equal(await quotas().move(key, op, '', 'at:1:1', TIMEOUT_MS), 'done:1:2');
      assert.equal(await quotas().move(key, op, 'done:1:2', 'refunded:1:3', TIMEOUT_MS), 'refunded:1:3');
      assert.deepEqual(await atHome(key, op, 1), { status: 'refunded', amount: 1 });
    });

    it('Q14: is granted once by a shard, and refused from there with an amount that is another', async () => {
      const [key, op] = [await newShard(5), newOperation()];
      const receipt = { status: 'granted', amount: 2, remaining: 3 };
      assert.deepEqual(await deduct(key, op, 1, 2), { ...receipt, replayed: false });
      assert.deepEqual(await deduct(key, op, 1, 2), { ...receipt, replayed: true });
      assert.deepEqual(await deduct(key, op, 9, 2), { ...receipt, replayed: true });
      assert.deepEqual(await deduct(key, op, 9, 3), { status: 'otherAmount', amount: 2 });
      assert.equal(await left(key), 3);
    });

    it('Q14: is refused for good in a generation that was refused: a late request, or a lower one', async () => {
      const [key, op] = [await newShard(1), newOperation()];
      assert.deepEqual(await deduct(key, op, 4, 2), { status: 'exceeded', remaining: 1 });
      await quotas().carryOut(batchOf(key, [{ kind: 'grant', amount: 5 }], { isShard: true }), TIMEOUT_MS);
      assert.deepEqual(await deduct(key, op, 4, 2), { status: 'exceeded', remaining: 6 });
      assert.deepEqual(await deduct(key, op, 3, 2), { status: 'exceeded', remaining: 6 });
      assert.equal(await quotas().takePart(key, op, 4, 2, TIMEOUT_MS), null);
      assert.equal(await left(key), 6);
      assert.equal((await deduct(key, op, 5, 2)).status, 'granted');
    });

    it('gives back once what it took there', async () => {
      const [key, op] = [await newShard(5), newOperation()];
      await deduct(key, op, 1, 2);
      const back = { status: 'givenBack', amount: 2, remaining: 5 };
      assert.deepEqual(await quotas().giveBackAt(key, op, 1, TIMEOUT_MS), { ...back, replayed: false });
      assert.deepEqual(await quotas().giveBackAt(key, op, 1, TIMEOUT_MS), { ...back, replayed: true });
      assert.deepEqual(await deduct(key, op, 9, 2), { status: 'refunded', amount: 2 });
      assert.equal(await left(key), 5);
    });

    it('Q15: where it holds nothing, giving back makes sure that it never will by this generation', async () => {
      const [key, op] = [await newShard(5), newOperation()];
      assert.deepEqual(await quotas().giveBackAt(key, op, 3, TIMEOUT_MS), { status: 'nothing' });
      assert.equal((await deduct(key, op, 3, 1)).status, 'exceeded');
      assert.equal(await left(key), 5);
    });
  });

  describe('an operation that is gathered', () => {
    it('Q11: takes what there is, up to what is wanted, once per generation', async () => {
      const [key, op] = [await newShard(3), newOperation()];
      const take = (generation: number, wanted: number): Promise<number | null> =>
        quotas().takePart(key, op, generation, wanted, TIMEOUT_MS);
      assert.equal(await take(2, 2), 2);
      assert.equal(await take(2, 2), 2);
      assert.equal(await left(key), 1);
      assert.equal(await quotas().takePart(key, newOperation(), 1, 5, TIMEOUT_MS), 1);
      assert.equal(await quotas().takePart(key, newOperation(), 1, 5, TIMEOUT_MS), 0);
      assert.equal(await quotas().takePart(newKey('shard'), newOperation(), 1, 5, TIMEOUT_MS), 0);
    });

    it('Q11: gives its part back once, and a session that was undone is refused from then on', async () => {
      const [key, op] = [await newShard(3), newOperation()];
      await quotas().takePart(key, op, 2, 2, TIMEOUT_MS);
      assert.deepEqual(await quotas().giveBackAt(key, op, 3, TIMEOUT_MS), {
        status: 'partReturned',
        amount: 2,
      });
      assert.deepEqual(await quotas().giveBackAt(key, op, 3, TIMEOUT_MS), { status: 'nothing' });
      assert.equal(await quotas().takePart(key, op, 2, 2, TIMEOUT_MS), null);
      assert.equal(await quotas().takePart(key, op, 3, 2, TIMEOUT_MS), null);
      assert.equal(await left(key), 3);
      assert.equal(await quotas().takePart(key, op, 4, 2, TIMEOUT_MS), 2);
    });
  });
}
