import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BeginReply, IdempotencyStore, RecordState } from '../../backend/backend.js';
import { newKey, SHORT_MS, TIMEOUT_MS, until, type ContractTestApi, type Subject } from './contract-suite.js';
import { newRun, PAYLOAD, type Run } from './idempotency-contract.js';

/** Bounds a wait for a message that does not come. */
const HEARD_WITHIN_MS = 2_000;

/** Those who wait for a record, and what an operator is shown. */
export function idempotencyWaitingContract({ describe, it }: ContractTestApi, subject: Subject): void {
  const store = (): IdempotencyStore => subject().backend.idempotency;
  const begin = (run: Run): Promise<BeginReply> => store().begin(run, TIMEOUT_MS);
  const complete = (run: Run) => store().complete({ ...run, payload: PAYLOAD }, TIMEOUT_MS);
  const inspect = (run: Run) => store().inspect(run.recordKey, TIMEOUT_MS);

  describe('waiting', () => {
    const inbox = () => subject().backend.locks.inbox;

    /** A message takes real time, whatever clock the store goes by. */
    const heard = async (what: string, holds: () => boolean): Promise<void> => {
      const giveUpAt = performance.now() + HEARD_WITHIN_MS;
      while (!holds()) {
        assert.ok(performance.now() < giveUpAt, `waited in vain: ${what}`);
        await sleep(2);
      }
    };

    /** Notes waiters in the record, ends it, and counts what the inbox is told. */
    const toldBy = async (run: Run, end: () => Promise<unknown>): Promise<number> => {
      await inbox().open(TIMEOUT_MS);
      assert.equal(inbox().state, 'listening');
      let told = 0;
      const unlisten = inbox().onRecordEnded((recordKey) => {
        if (recordKey === run.recordKey) told++;
      });
      try {
        for (let waiter = 0; waiter < 20; waiter++) {
          const waiting = { ...newRun(run.recordKey), queue: true };
          assert.equal((await store().begin(waiting, TIMEOUT_MS)).status, 'busy');
        }
        await end();
        await heard('the message', () => told > 0);
        // a second message would be on its way before this one
        const other = newRun();
        await begin(other);
        let otherTold = false;
        const done = inbox().onRecordEnded((recordKey) => (otherTold ||= recordKey === other.recordKey));
        await store().begin({ ...newRun(other.recordKey), queue: true }, TIMEOUT_MS);
        await store().release(other, TIMEOUT_MS);
        await heard('the message of another record', () => otherTold);
        done();
        return told;
      } finally {
        unlisten();
      }
    };

    it('complete, release, abandon and forget tell who waits: once, however many wait', async () => {
      const ends: Array<(run: Run) => Promise<unknown>> = [
        (run) => complete(run),
        (run) => store().release(run, TIMEOUT_MS),
        (run) => store().abandon(run),
        (run) => store().forget(run.recordKey, TIMEOUT_MS),
      ];
      for (const end of ends) {
        const run = newRun();
        await begin(run);
        assert.equal(await toldBy(run, () => end(run)), 1);
      }
    });

    it('a waiter changes nothing else: the record is completed, taken over and shown as ever', async () => {
      const first = newRun(undefined, { leaseMs: SHORT_MS });
      await begin(first);
      await until(subject(), 'the end of the lease', async () => (await inspect(first))?.leaseMs === 0);
      const second = newRun(first.recordKey, { attempt: 2 });
      assert.deepEqual(await begin(second), { status: 'takeover', attempt: 2 });
      await store().begin({ ...newRun(first.recordKey), queue: true }, TIMEOUT_MS);
      assert.equal((await inspect(second))?.attempt, 2);
      await store().leave(first.recordKey, TIMEOUT_MS);
      await store().leave(newKey('record'), TIMEOUT_MS);
      assert.deepEqual(await complete(second), { status: 'ok' });
      const reply = await begin(newRun(first.recordKey));
      assert.equal(reply.status, 'replay');
      assert.ok(PAYLOAD.equals(reply.payload));
    });

    it('a listener that was taken away hears nothing more', async () => {
      const run = newRun();
      await begin(run);
      let calls = 0;
      const listener = (): void => void calls++;
      const unlisten = [inbox().onRecordEnded(listener), inbox().onRecordEnded(listener)];
      for (const stop of unlisten) stop();
      assert.equal(await toldBy(run, () => store().release(run, TIMEOUT_MS)), 1);
      assert.equal(calls, 0);
    });
  });

  describe('list', () => {
    it('shows the records behind a prefix that match, with their states', async () => {
      const prefix = `${newKey('list')}:[x]:`;
      const pending = newRun(`${prefix}idem:a:1`);
      const done = newRun(`${prefix}idem:b:2`);
      const outside = newRun(`${prefix.replace('[x]', 'x')}idem:a:1`);
      for (const run of [pending, done, outside]) await begin(run);
      await complete(done);
      const listed = async (pattern: string): Promise<RecordState[]> => {
        const states: RecordState[] = [];
        for await (const state of store().list(prefix, pattern, TIMEOUT_MS)) states.push(state);
        return states.sort((one, other) => (one.recordKey < other.recordKey ? -1 : 1));
      };
      const [first, second, ...rest] = await listed('idem:*');
      assert.equal(rest.length, 0);
      assert.equal(first?.recordKey, pending.recordKey);
      assert.equal(first?.state, 'pending');
      assert.equal(second?.recordKey, done.recordKey);
      assert.ok(PAYLOAD.equals(second.payload!));
      assert.equal((await listed('idem:b:*'))[0]?.recordKey, done.recordKey);
      assert.deepEqual(await listed('nothing*'), []);
    });
  });
}
