import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  FENCE_BLOCK,
  PASSED_ON_LEASE_MS,
  type AcquireRequest,
  type GiveWayReply,
  type InboxGrant,
  type LeaseRef,
  type LockStore,
} from '../../backend/backend.js';
import {
  LONG_MS,
  newKey,
  SHORT_MS,
  TIMEOUT_MS,
  until,
  type ContractTestApi,
  type Subject,
} from './contract-suite.js';

let made = 0;

/** The store's queue: who stands in it, in which order, and how a key comes to the next. */
export function waitingContract({ describe, it, beforeAll }: ContractTestApi, subject: Subject): void {
  const heard: InboxGrant[] = [];
  const taken: LeaseRef[] = [];
  let prefix: string;

  beforeAll(async () => {
    prefix = subject().backend.tokenPrefix;
    const { inbox } = locks();
    inbox.onGrant((grant) => heard.push(grant));
    inbox.onForceRelease((lease) => taken.push(lease));
    await inbox.open(TIMEOUT_MS);
    assert.equal(inbox.state, 'listening');
  });

  const locks = (): LockStore => subject().backend.locks;
  const newToken = (): string => `${prefix}-${(++made).toString(16).padStart(12, '0')}`;
  const asker = (key: string, leaseMs = LONG_MS, token = newToken()): AcquireRequest => ({
    key,
    token,
    leaseMs,
    ttlMs: LONG_MS,
    queue: false,
  });
  const take = async (request: AcquireRequest): Promise<number> => {
    const reply = await locks().acquire(request, TIMEOUT_MS);
    assert.equal(reply.status, 'granted');
    return reply.fencingToken;
  };
  /** Stands in the queue behind a holder. */
  const queued = async (key: string, token = newToken()): Promise<AcquireRequest> => {
    const request = { ...asker(key, LONG_MS, token), queue: true };
    assert.equal((await locks().acquire(request, TIMEOUT_MS)).status, 'busy');
    return request;
  };
  const release = (request: AcquireRequest, keepMs = 0) =>
    locks().release({ ...request, keepMs }, TIMEOUT_MS);
  const giveWay = (request: AcquireRequest, next: string): Promise<GiveWayReply> =>
    locks().giveWay({ ...request, next }, TIMEOUT_MS);
  const holder = async (key: string): Promise<string | undefined> =>
    (await locks().inspect(key, TIMEOUT_MS))?.token;
  const expired = (key: string): Promise<void> =>
    until(subject(), `the end of ${key}`, async () => (await holder(key)) === undefined);
  const grantOf = async ({ token }: LeaseRef): Promise<InboxGrant> => {
    const giveUpAt = performance.now() + TIMEOUT_MS;
    for (;;) {
      const grant = heard.find((one) => one.token === token);
      if (grant) return grant;
      assert.ok(performance.now() < giveUpAt, 'waited in vain for a grant to be heard');
      await sleep(2);
    }
  };

  describe('waiting in the queue', () => {
    it('passes a released key on in the order of arrival, whoever asks again in between', async () => {
      const key = newKey('lock');
      const first = asker(key);
      await take(first);
      const waiters = [await queued(key), await queued(key), await queued(key)];
      await queued(key, waiters[0]!.token);
      assert.equal((await locks().acquire(asker(key), TIMEOUT_MS)).status, 'busy');
      assert.equal((await locks().inspect(key, TIMEOUT_MS))?.waitingProcesses, 3);
      let previous = first;
      for (const waiter of waiters) {
        assert.equal(await release(previous), 'released');
        assert.equal(await holder(key), waiter.token);
        await grantOf(waiter);
        previous = waiter;
      }
      assert.equal(await release(previous), 'released');
      assert.equal(await locks().inspect(key, TIMEOUT_MS), null);
      assert.equal(heard.filter((grant) => grant.key === key).length, waiters.length);
    });

    it('tells the next with its fencing token and the time, under a short lease that it takes up', async () => {
      const key = newKey('lock with spaces: 1 2 3');
      const first = asker(key);
      const reply = await locks().acquire(first, TIMEOUT_MS);
      assert.equal(reply.status, 'granted');
      const waiter = await queued(key);
      await release(first);
      const grant = await grantOf(waiter);
      assert.equal(grant.key, key);
      assert.ok(grant.fencingToken >= reply.fencingToken + FENCE_BLOCK, 'a block is reserved for each lease');
      assert.ok(grant.time >= reply.time, 'the time goes on');
      const state = await locks().inspect(key, TIMEOUT_MS);
      assert.equal(state?.token, waiter.token);
      assert.equal(state.fencingToken, grant.fencingToken);
      assert.ok(state.remainingMs > 0 && state.remainingMs <= PASSED_ON_LEASE_MS, String(state.remainingMs));
      assert.ok((await take(waiter)) >= grant.fencingToken + FENCE_BLOCK);
      const left = (await locks().inspect(key, TIMEOUT_MS))?.remainingMs ?? 0;
      assert.ok(left > LONG_MS / 2, String(left));
    });

    it('the lease that was passed on can be extended, and given back', async () => {
      const key = newKey('lock');
      const first = asker(key);
      await take(first);
      const [second, third] = [await queued(key), await queued(key)];
      await release(first);
      assert.equal(await locks().extend([second], TIMEOUT_MS)[0], 'extended');
      assert.ok(((await locks().inspect(key, TIMEOUT_MS))?.remainingMs ?? 0) > LONG_MS / 2);
      assert.equal(await release(second), 'released');
      assert.equal(await holder(key), third.token);
    });

    it('goes on to the next when nobody takes up what was passed on', async () => {
      const key = newKey('lock');
      const first = asker(key);
      await take(first);
      // of a process that never was
      await queued(key, randomUUID());
      const next = await queued(key);
      await release(first);
      await until(subject(), 'the next to be granted', async () => {
        return (await locks().acquire(next, TIMEOUT_MS)).status === 'granted';
      });
      assert.equal(await holder(key), next.token);
    });

    it('a free key goes to the first who waits, whoever finds it', async () => {
      const key = newKey('lock');
      await take(asker(key, SHORT_MS));
      const [first, second] = [await queued(key), await queued(key)];
      await expired(key);
      const reply = await locks().acquire(asker(key), TIMEOUT_MS);
      assert.equal(reply.status, 'busy');
      assert.ok(reply.remainingMs <= PASSED_ON_LEASE_MS);
      await grantOf(first);
      assert.equal(await holder(key), first.token);
      await release(first);
      await grantOf(second);
    });

    it('the first who waits gets a free key by asking, the second does not', async () => {
      const key = newKey('lock');
      await take(asker(key, SHORT_MS));
      const [first, second] = [await queued(key), await queued(key)];
      await expired(key);
      await take(first);
      assert.equal((await locks().acquire(second, TIMEOUT_MS)).status, 'busy');
      assert.equal((await locks().inspect(key, TIMEOUT_MS))?.waitingProcesses, 1);
      assert.equal(heard.filter((grant) => grant.key === key).length, 0);
    });

    it('a key that stays for keepMs is passed on to nobody before', async () => {
      const key = newKey('lock');
      const first = asker(key);
      await take(first);
      await queued(key);
      assert.equal(await release(first, LONG_MS), 'released');
      assert.equal(await holder(key), first.token);
      assert.equal((await locks().inspect(key, TIMEOUT_MS))?.waitingProcesses, 1);
    });

    it('a block of fencing tokens is reserved each time, and none goes back', async () => {
      const key = newKey('lock');
      const first = asker(key);
      const firsts = [await take(first), await take(first)];
      const next = newToken();
      const kept = await giveWay(first, next);
      assert.equal(kept.status, 'kept');
      firsts.push(kept.fencingToken);
      const waiter = await queued(key);
      await release({ ...first, token: next });
      firsts.push((await grantOf(waiter)).fencingToken);
      await release(waiter);
      const together = await locks().acquireAll([asker(key)], TIMEOUT_MS);
      assert.equal(together.status, 'granted');
      firsts.push(together.fencingToken);
      assert.equal(await locks().forceRelease(key, TIMEOUT_MS), true);
      firsts.push(await take(asker(key)));
      for (let at = 1; at < firsts.length; at++) {
        assert.ok(firsts[at]! >= firsts[at - 1]! + FENCE_BLOCK, firsts.join(', '));
      }
    });
  });

  describe('giveWay', () => {
    it('keeps the key under the next token when nobody else waits, and again when it is resent', async () => {
      const key = newKey('lock');
      const mine = asker(key, SHORT_MS * 10);
      const fence = await take(mine);
      const next = newToken();
      const kept = await giveWay({ ...mine, leaseMs: LONG_MS }, next);
      assert.equal(kept.status, 'kept');
      assert.ok(kept.fencingToken >= fence + FENCE_BLOCK);
      const state = await locks().inspect(key, TIMEOUT_MS);
      assert.equal(state?.token, next);
      assert.ok(state.remainingMs > LONG_MS / 2);
      const resent = await giveWay({ ...mine, leaseMs: LONG_MS }, next);
      assert.equal(resent.status, 'kept');
      assert.ok(resent.fencingToken >= kept.fencingToken + FENCE_BLOCK);
      assert.equal(await release(mine), 'foreign');
      assert.equal(await holder(key), next);
    });

    it('passes the key on and stands in line again, behind all who wait', async () => {
      const key = newKey('lock');
      const mine = asker(key);
      await take(mine);
      const others = [await queued(key), await queued(key)];
      const next = newToken();
      assert.equal((await giveWay(mine, next)).status, 'released');
      assert.equal((await giveWay(mine, next)).status, 'foreign');
      for (const other of others) {
        await grantOf(other);
        assert.equal(await holder(key), other.token);
        await release(other);
      }
      await grantOf({ key, token: next });
      assert.equal(await holder(key), next);
    });

    it('answers gone and foreign, and touches nothing', async () => {
      const key = newKey('lock');
      const mine = asker(key);
      assert.equal((await giveWay(mine, newToken())).status, 'gone');
      const theirs = asker(key);
      await take(theirs);
      assert.equal((await giveWay(mine, newToken())).status, 'foreign');
      const state = await locks().inspect(key, TIMEOUT_MS);
      assert.equal(state?.token, theirs.token);
      assert.equal(state.waitingProcesses, 0);
    });
  });

  describe('who leaves', () => {
    it('abandon takes a token out of the queue', async () => {
      const key = newKey('lock');
      const first = asker(key);
      await take(first);
      const [leaving, staying] = [await queued(key), await queued(key)];
      await locks().abandon(leaving);
      assert.equal((await locks().inspect(key, TIMEOUT_MS))?.waitingProcesses, 1);
      await release(first);
      await grantOf(staying);
      assert.equal(await holder(key), staying.token);
    });

    it('abandon passes on what was already passed on to the one that leaves', async () => {
      const key = newKey('lock');
      const first = asker(key);
      await take(first);
      const [leaving, staying] = [await queued(key), await queued(key)];
      await release(first);
      await locks().abandon(leaving);
      await grantOf(staying);
      assert.equal(await holder(key), staying.token);
      await locks().abandon(staying);
      assert.equal(await locks().inspect(key, TIMEOUT_MS), null);
    });

    it('forceRelease tells the holder, and passes the key on', async () => {
      const key = newKey('lock');
      const first = asker(key);
      await take(first);
      const waiter = await queued(key);
      assert.equal(await locks().forceRelease(key, TIMEOUT_MS), true);
      await grantOf(waiter);
      assert.equal(await holder(key), waiter.token);
      assert.deepEqual(
        taken.filter((lease) => lease.key === key),
        [{ key, token: first.token }],
      );
    });
  });

  describe('several keys beside a queue', () => {
    it('acquireAll refuses a free key that somebody waits for, and takes none', async () => {
      const tag = `{${newKey('lock')}}`;
      const [free, awaited] = [`${tag}:1`, `${tag}:2`];
      await take(asker(awaited, SHORT_MS));
      const waiter = await queued(awaited);
      await expired(awaited);
      const reply = await locks().acquireAll([asker(free), asker(awaited)], TIMEOUT_MS);
      assert.equal(reply.status, 'busy');
      assert.equal(reply.key, awaited);
      assert.equal(await locks().inspect(free, TIMEOUT_MS), null);
      await take(waiter);
    });

    it('acquireAll takes its own keys again although somebody waits by now', async () => {
      const tag = `{${newKey('lock')}}`;
      const wanted = [asker(`${tag}:1`), asker(`${tag}:2`)];
      assert.equal((await locks().acquireAll(wanted, TIMEOUT_MS)).status, 'granted');
      await queued(wanted[0]!.key);
      assert.equal((await locks().acquireAll(wanted, TIMEOUT_MS)).status, 'granted');
    });
  });
}
