import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { BeginReply, IdempotencyStore } from '../../backend/backend.js';
import {
  LONG_MS,
  newKey,
  SHORT_MS,
  TIMEOUT_MS,
  until,
  type ContractTestApi,
  type Subject,
} from './contract-suite.js';

/** One run of one owner. */
export interface Run {
  recordKey: string;
  owner: string;
  attempt: number;
  fingerprint: string | null;
  ttlMs: number;
  leaseMs: number;
}

export function newRun(recordKey = newKey('record'), changes: Partial<Run> = {}): Run {
  return {
    recordKey,
    owner: randomUUID(),
    attempt: 1,
    fingerprint: null,
    ttlMs: LONG_MS,
    leaseMs: LONG_MS,
    ...changes,
  };
}

/** Every byte there is: a payload is not text. */
export const PAYLOAD = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
const OTHER = Buffer.from('another');

/** The state machine of a record: absent, pending, done. */
export function idempotencyContract({ describe, it }: ContractTestApi, subject: Subject): void {
  const store = (): IdempotencyStore => subject().backend.idempotency;
  const begin = (run: Run): Promise<BeginReply> => store().begin(run, TIMEOUT_MS);
  const complete = (run: Run, payload: Buffer = PAYLOAD) => store().complete({ ...run, payload }, TIMEOUT_MS);
  const inspect = (run: Run) => store().inspect(run.recordKey, TIMEOUT_MS);
  const leaseEnded = (run: Run): Promise<void> =>
    until(subject(), 'the end of the lease', async () => (await inspect(run))?.leaseMs === 0);

  /** A record whose first owner died, and the owner that took it over. */
  const takenOver = async (): Promise<{ first: Run; second: Run }> => {
    const first = newRun(undefined, { leaseMs: SHORT_MS });
    assert.deepEqual(await begin(first), { status: 'new', attempt: 1 });
    await leaseEnded(first);
    const second = newRun(first.recordKey, { attempt: 2 });
    assert.deepEqual(await begin(second), { status: 'takeover', attempt: 2 });
    return { first, second };
  };

  describe('begin', () => {
    it('absent: new, attempt 1, and the record is pending', async () => {
      const run = newRun();
      assert.equal(await inspect(run), null);
      assert.deepEqual(await begin(run), { status: 'new', attempt: 1 });
      const state = await inspect(run);
      assert.ok(state);
      assert.equal(state.recordKey, run.recordKey);
      assert.equal(state.state, 'pending');
      assert.equal(state.attempt, 1);
      assert.ok(state.leaseMs > LONG_MS / 2 && state.leaseMs <= LONG_MS, String(state.leaseMs));
      assert.equal(state.payload, undefined);
    });

    it('one of many at once is new, the others are busy', async () => {
      const { recordKey } = newRun();
      const replies = await Promise.all(Array.from({ length: 50 }, () => begin(newRun(recordKey))));
      assert.equal(replies.filter(({ status }) => status === 'new').length, 1);
      assert.equal(replies.filter(({ status }) => status === 'busy').length, 49);
    });

    it("pending with lease left: busy, with the attempt and the owner's rest", async () => {
      const run = newRun();
      await begin(run);
      const reply = await begin(newRun(run.recordKey));
      assert.equal(reply.status, 'busy');
      assert.equal(reply.attempt, 1);
      assert.ok(reply.leaseMs > 0 && reply.leaseMs <= LONG_MS, String(reply.leaseMs));
    });

    it('the same owner again: new, with a fresh lease', async () => {
      const run = newRun(undefined, { leaseMs: SHORT_MS });
      await begin(run);
      assert.deepEqual(await begin({ ...run, leaseMs: LONG_MS }), { status: 'new', attempt: 1 });
      assert.ok(((await inspect(run))?.leaseMs ?? 0) > LONG_MS / 2);
    });

    it('the same owner again after its lease ended: new, and still attempt 1', async () => {
      const run = newRun(undefined, { leaseMs: SHORT_MS });
      await begin(run);
      await leaseEnded(run);
      assert.deepEqual(await begin(run), { status: 'new', attempt: 1 });
    });

    it('lease ended: takeover with the next attempt; the record outlives the lease', async () => {
      const { second } = await takenOver();
      const state = await inspect(second);
      assert.equal(state?.state, 'pending');
      assert.equal(state.attempt, 2);
      assert.ok(state.leaseMs > LONG_MS / 2);
    });

    it('done: replay, byte for byte', async () => {
      const run = newRun();
      await begin(run);
      await complete(run);
      const reply = await begin(newRun(run.recordKey));
      assert.equal(reply.status, 'replay');
      assert.equal(reply.attempt, 1);
      assert.ok(PAYLOAD.equals(reply.payload));
    });

    it('another fingerprint: mismatch while pending, after the lease and when done', async () => {
      const run = newRun(undefined, { fingerprint: 'body-1', leaseMs: SHORT_MS });
      const other = newRun(run.recordKey, { fingerprint: 'body-2' });
      const same = newRun(run.recordKey, { fingerprint: 'body-1', attempt: 2 });
      await begin({ ...run, leaseMs: LONG_MS });
      assert.deepEqual(await begin(other), { status: 'mismatch' });
      await store().renew(run, TIMEOUT_MS);
      await leaseEnded(run);
      assert.deepEqual(await begin(other), { status: 'mismatch' });
      assert.deepEqual(await begin(same), { status: 'takeover', attempt: 2 });
      assert.deepEqual(await begin(other), { status: 'mismatch' });
      await complete(same);
      assert.deepEqual(await begin(other), { status: 'mismatch' });
      assert.equal((await begin(newRun(run.recordKey, { fingerprint: 'body-1' }))).status, 'replay');
    });

    it('no fingerprint: not compared', async () => {
      const run = newRun(undefined, { fingerprint: 'body-1' });
      await begin(run);
      assert.equal((await begin(newRun(run.recordKey))).status, 'busy');
    });

    it('ends with its ttl', async () => {
      const run = newRun(undefined, { ttlMs: SHORT_MS, leaseMs: SHORT_MS });
      await begin(run);
      await complete(run);
      await until(subject(), 'the end of the record', async () => (await inspect(run)) === null);
      assert.deepEqual(await begin(newRun(run.recordKey)), { status: 'new', attempt: 1 });
    });
  });

  describe('renew', () => {
    it('its owner: ok, the lease starts afresh', async () => {
      const run = newRun(undefined, { leaseMs: SHORT_MS });
      await begin(run);
      assert.equal(await store().renew({ ...run, leaseMs: LONG_MS }, TIMEOUT_MS), 'ok');
      assert.ok(((await inspect(run))?.leaseMs ?? 0) > LONG_MS / 2);
      assert.equal((await begin(newRun(run.recordKey))).status, 'busy');
    });

    it('after its lease ended, with nobody else: ok', async () => {
      const run = newRun(undefined, { leaseMs: SHORT_MS });
      await begin(run);
      await leaseEnded(run);
      assert.equal(await store().renew({ ...run, leaseMs: LONG_MS }, TIMEOUT_MS), 'ok');
      assert.equal((await begin(newRun(run.recordKey))).status, 'busy');
    });

    it('after a takeover: lost, and the new owner is left alone', async () => {
      const { first, second } = await takenOver();
      assert.equal(await store().renew({ ...first, leaseMs: 10 * LONG_MS }, TIMEOUT_MS), 'lost');
      assert.ok(((await inspect(second))?.leaseMs ?? 0) <= LONG_MS);
      assert.equal(await store().renew(second, TIMEOUT_MS), 'ok');
    });

    it('a record that vanished: written again, with owner, attempt and fingerprint', async () => {
      const run = newRun(undefined, { attempt: 3, fingerprint: 'body-1' });
      assert.equal(await store().renew(run, TIMEOUT_MS), 'recreated');
      const state = await inspect(run);
      assert.equal(state?.state, 'pending');
      assert.equal(state.attempt, 3);
      assert.equal((await begin(newRun(run.recordKey, { fingerprint: 'body-2' }))).status, 'mismatch');
      assert.equal((await begin(newRun(run.recordKey, { fingerprint: 'body-1' }))).status, 'busy');
      assert.deepEqual(await complete(run), { status: 'ok' });
    });
  });

  it('a renewal that comes after the completion changes nothing, and is not a loss', async () => {
    const run = newRun();
    await begin(run);
    await complete(run);
    assert.equal(await store().renew(run, TIMEOUT_MS), 'ok');
    const state = await inspect(run);
    assert.equal(state?.state, 'done');
    assert.equal(state.leaseMs, 0);
    assert.equal(await store().renew(newRun(run.recordKey), TIMEOUT_MS), 'lost');
  });

  describe('complete', () => {
    it('its owner: ok, then duplicate, and the first payload stays', async () => {
      const run = newRun();
      await begin(run);
      assert.deepEqual(await complete(run), { status: 'ok' });
      assert.deepEqual(await complete(run, OTHER), { status: 'duplicate' });
      const state = await inspect(run);
      assert.equal(state?.state, 'done');
      assert.equal(state.leaseMs, 0);
      assert.equal(state.attempt, 1);
      assert.ok(PAYLOAD.equals(state.payload!));
    });

    it('after its lease ended, with nobody else: ok', async () => {
      const run = newRun(undefined, { leaseMs: SHORT_MS });
      await begin(run);
      await leaseEnded(run);
      assert.deepEqual(await complete(run), { status: 'ok' });
    });

    it('while another owner runs: lost, and that one completes', async () => {
      const { first, second } = await takenOver();
      assert.deepEqual(await complete(first, OTHER), { status: 'lost' });
      assert.deepEqual(await complete(second), { status: 'ok' });
    });

    it("after another owner finished: that one's payload", async () => {
      const { first, second } = await takenOver();
      await complete(second);
      const reply = await complete(first, OTHER);
      assert.equal(reply.status, 'lostDone');
      assert.ok(PAYLOAD.equals(reply.payload));
      assert.ok(PAYLOAD.equals((await inspect(second))!.payload!));
    });

    it('a record that vanished: written all the same', async () => {
      const run = newRun(undefined, { attempt: 2, fingerprint: 'body-1' });
      assert.deepEqual(await complete(run), { status: 'recreated' });
      const reply = await begin(newRun(run.recordKey, { fingerprint: 'body-1' }));
      assert.equal(reply.status, 'replay');
      assert.equal(reply.attempt, 2);
      assert.ok(PAYLOAD.equals(reply.payload));
      assert.equal((await begin(newRun(run.recordKey, { fingerprint: 'body-2' }))).status, 'mismatch');
    });

    it('keeps an empty payload', async () => {
      const run = newRun();
      await begin(run);
      await complete(run, Buffer.alloc(0));
      const reply = await begin(newRun(run.recordKey));
      assert.equal(reply.status, 'replay');
      assert.equal(reply.payload.length, 0);
    });
  });

  describe('release', () => {
    it('its owner: the record goes, and a retry is new, with another body too', async () => {
      const run = newRun(undefined, { fingerprint: 'body-1' });
      await begin(run);
      assert.equal(await store().release(run, TIMEOUT_MS), 'ok');
      assert.equal(await inspect(run), null);
      assert.equal(await store().release(run, TIMEOUT_MS), 'gone');
      const retry = newRun(run.recordKey, { fingerprint: 'body-2' });
      assert.deepEqual(await begin(retry), { status: 'new', attempt: 1 });
    });

    it('after a takeover: lost, and the new owner is left alone', async () => {
      const { first, second } = await takenOver();
      assert.equal(await store().release(first, TIMEOUT_MS), 'lost');
      assert.deepEqual(await complete(second), { status: 'ok' });
    });

    it('never removes a finished record', async () => {
      const run = newRun();
      await begin(run);
      await complete(run);
      assert.equal(await store().release(run, TIMEOUT_MS), 'lost');
      assert.equal((await begin(newRun(run.recordKey))).status, 'replay');
    });
  });

  describe('abandon', () => {
    it('attempt 1: as if it had never been', async () => {
      const run = newRun();
      await begin(run);
      await store().abandon(run);
      assert.equal(await inspect(run), null);
    });

    it('a later attempt: taken back, the lease ends now; again it does nothing', async () => {
      const { second } = await takenOver();
      await store().abandon(second);
      await store().abandon(second);
      const state = await inspect(second);
      assert.equal(state?.state, 'pending');
      assert.equal(state.attempt, 1);
      assert.equal(state.leaseMs, 0);
      assert.deepEqual(await begin(newRun(second.recordKey)), { status: 'takeover', attempt: 2 });
    });

    it("leaves another owner's and a finished record alone", async () => {
      const { first, second } = await takenOver();
      await store().abandon(first);
      assert.equal((await inspect(second))?.attempt, 2);
      await complete(second);
      await store().abandon(second);
      assert.equal((await inspect(second))?.state, 'done');
    });
  });

  describe('forget', () => {
    it('deletes a record of either state, and says when there was none', async () => {
      const run = newRun();
      assert.equal(await store().forget(run.recordKey, TIMEOUT_MS), false);
      await begin(run);
      assert.equal(await store().forget(run.recordKey, TIMEOUT_MS), true);
      await begin(run);
      await complete(run);
      assert.equal(await store().forget(run.recordKey, TIMEOUT_MS), true);
      assert.equal(await inspect(run), null);
    });
  });
}
