import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { AcquireReply, LockState, LockStore } from '../../backend/backend.js';
import {
  LONG_MS,
  newKey,
  SHORT_MS,
  TIMEOUT_MS,
  until,
  type ContractTestApi,
  type Subject,
} from './contract-suite.js';

interface Holding {
  key: string;
  token: string;
  leaseMs: number;
  ttlMs: number;
  queue: boolean;
}

function holding(key = newKey('lock'), leaseMs = LONG_MS, token: string = randomUUID()): Holding {
  return { key, token, leaseMs, ttlMs: LONG_MS, queue: false };
}

function grantedFence(reply: AcquireReply): number {
  assert.equal(reply.status, 'granted');
  assert.ok(Number.isSafeInteger(reply.fencingToken), `${reply.fencingToken} is no safe integer`);
  return reply.fencingToken;
}

function assertBusy(reply: AcquireReply, key: string): number {
  assert.equal(reply.status, 'busy');
  assert.equal(reply.key, key);
  return reply.remainingMs;
}

async function remaining(locks: LockStore, key: string): Promise<number> {
  return (await locks.inspect(key, TIMEOUT_MS))?.remainingMs ?? 0;
}

async function collect(states: AsyncIterable<LockState>): Promise<LockState[]> {
  const found: LockState[] = [];
  for await (const state of states) found.push(state);
  return found;
}

/** Taking, proving, prolonging and giving back keys. */
export function lockContract({ describe, it }: ContractTestApi, subject: Subject): void {
  const locks = (): LockStore => subject().backend.locks;
  const acquire = async (request: Holding): Promise<number> =>
    grantedFence(await locks().acquire(request, TIMEOUT_MS));
  const expired = (key: string): Promise<void> =>
    until(subject(), `the end of ${key}`, async () => (await locks().inspect(key, TIMEOUT_MS)) === null);
  const fenceOf = async (key: string): Promise<number | undefined> =>
    (await locks().inspect(key, TIMEOUT_MS))?.fencingToken;

  describe('acquire', () => {
    it('grants a free key and shows it', async () => {
      const mine = holding();
      const fencingToken = await acquire(mine);
      const state = await locks().inspect(mine.key, TIMEOUT_MS);
      assert.ok(state);
      assert.equal(state.key, mine.key);
      assert.equal(state.token, mine.token);
      assert.equal(state.fencingToken, fencingToken);
      assert.equal(state.waitingProcesses, 0);
      assert.ok(state.remainingMs > LONG_MS / 2 && state.remainingMs <= LONG_MS, String(state.remainingMs));
    });

    it('answers busy with what is left of the lease, and leaves the holder alone', async () => {
      const mine = holding();
      const fencingToken = await acquire(mine);
      const leftMs = assertBusy(await locks().acquire(holding(mine.key, 5 * LONG_MS), TIMEOUT_MS), mine.key);
      assert.ok(leftMs > 0 && leftMs <= LONG_MS, String(leftMs));
      const state = await locks().inspect(mine.key, TIMEOUT_MS);
      assert.equal(state?.token, mine.token);
      assert.equal(state.fencingToken, fencingToken);
      assert.ok(state.remainingMs <= LONG_MS);
    });

    it('grants only one of many at once', async () => {
      const key = newKey('lock');
      const replies = await Promise.all(
        Array.from({ length: 50 }, () => locks().acquire(holding(key), TIMEOUT_MS)),
      );
      assert.equal(replies.filter(({ status }) => status === 'granted').length, 1);
    });

    it('grants the same token again: raises a shorter life, with a new fencing token', async () => {
      const mine = holding(undefined, LONG_MS);
      const first = await acquire(mine);
      const second = await acquire({ ...mine, leaseMs: 10 * LONG_MS });
      assert.ok(second > first, `${second} after ${first}`);
      assert.equal(await fenceOf(mine.key), second);
      assert.ok((await remaining(locks(), mine.key)) > 5 * LONG_MS);
    });

    it('grants the same token again: never lowers a longer life', async () => {
      const mine = holding(undefined, LONG_MS);
      const first = await acquire(mine);
      const second = await acquire({ ...mine, leaseMs: SHORT_MS });
      assert.ok(second > first, `${second} after ${first}`);
      assert.ok((await remaining(locks(), mine.key)) > LONG_MS / 2);
    });

    it('frees the key when the lease ends', async () => {
      const mine = holding(undefined, SHORT_MS);
      await acquire(mine);
      await expired(mine.key);
      await acquire(holding(mine.key));
    });

    it('raises the fencing token strictly, across release and expiry', async () => {
      const key = newKey('lock');
      const seen: number[] = [];
      for (let round = 0; round < 20; round++) {
        const mine = holding(key);
        seen.push(await acquire(mine));
        assert.equal(await locks().release({ ...mine, keepMs: 0 }, TIMEOUT_MS), 'released');
      }
      seen.push(await acquire(holding(key, SHORT_MS)));
      await expired(key);
      seen.push(await acquire(holding(key)));
      assert.equal(await locks().forceRelease(key, TIMEOUT_MS), true);
      seen.push(await acquire(holding(key)));
      for (let i = 1; i < seen.length; i++) assert.ok(seen[i]! > seen[i - 1]!, seen.join(', '));
    });
  });

  describe('acquireAll and raiseFence', () => {
    const together = (count: number): Holding[] => {
      const tag = `{${newKey('lock')}}`;
      return Array.from({ length: count }, (_, i) => holding(`${tag}:${i}`));
    };

    it('takes all of them, with one fencing token that every key is raised to', async () => {
      const wanted = together(3);
      assert.equal(locks().canAcquireTogether(wanted.map(({ key }) => key)), true);
      await locks().raiseFence(
        [{ key: wanted[1]!.key, fencingToken: 9_000_000_000_000_000, ttlMs: LONG_MS }],
        TIMEOUT_MS,
      );
      const fencingToken = grantedFence(await locks().acquireAll(wanted, TIMEOUT_MS));
      assert.ok(fencingToken > 9_000_000_000_000_000, String(fencingToken));
      for (const { key, token } of wanted) {
        const state = await locks().inspect(key, TIMEOUT_MS);
        assert.equal(state?.token, token);
        assert.equal(state.fencingToken, fencingToken);
      }
    });

    it('takes none when one is held, and names that one', async () => {
      const wanted = together(3);
      await acquire(holding(wanted[1]!.key));
      const leftMs = assertBusy(await locks().acquireAll(wanted, TIMEOUT_MS), wanted[1]!.key);
      assert.ok(leftMs > 0 && leftMs <= LONG_MS, String(leftMs));
      assert.equal(await locks().inspect(wanted[0]!.key, TIMEOUT_MS), null);
      assert.equal(await locks().inspect(wanted[2]!.key, TIMEOUT_MS), null);
    });

    it('grants the same tokens again, with a new fencing token', async () => {
      const wanted = together(2);
      const first = grantedFence(await locks().acquireAll(wanted, TIMEOUT_MS));
      const second = grantedFence(
        await locks().acquireAll(
          wanted.map((one) => ({ ...one, leaseMs: SHORT_MS })),
          TIMEOUT_MS,
        ),
      );
      assert.ok(second > first);
      for (const { key } of wanted) assert.ok((await remaining(locks(), key)) > LONG_MS / 2);
    });

    it('raises a fencing counter and never lowers it', async () => {
      const mine = holding();
      const first = await acquire(mine);
      const raise = (fencingToken: number): Promise<void> =>
        locks().raiseFence([{ key: mine.key, fencingToken, ttlMs: LONG_MS }], TIMEOUT_MS);
      await raise(first + 1_000_000_000);
      assert.equal(await fenceOf(mine.key), first + 1_000_000_000);
      await raise(5);
      assert.equal(await fenceOf(mine.key), first + 1_000_000_000);
      assert.ok((await acquire(mine)) > first + 1_000_000_000);
    });
  });

  describe('extend', () => {
    it('prolongs own leases, many in one call, each with its own answer', async () => {
      const [own, gone, foreign] = [holding(), holding(), holding()];
      await acquire(own);
      await acquire(holding(foreign.key));
      const asked = [own, gone, foreign].map((one) => ({ ...one, leaseMs: 10 * LONG_MS }));
      const replies = locks().extend(asked, TIMEOUT_MS);
      assert.deepEqual(await Promise.all(replies), ['extended', 'gone', 'foreign']);
      assert.ok((await remaining(locks(), own.key)) > 5 * LONG_MS);
      assert.equal(await locks().inspect(gone.key, TIMEOUT_MS), null);
      assert.ok((await remaining(locks(), foreign.key)) <= LONG_MS);
    });

    it('never shortens a life', async () => {
      const mine = holding();
      await acquire(mine);
      const [reply] = locks().extend([{ ...mine, leaseMs: SHORT_MS }], TIMEOUT_MS);
      assert.equal(await reply, 'extended');
      assert.ok((await remaining(locks(), mine.key)) > LONG_MS / 2);
    });

    it('does not revive a lease that ended', async () => {
      const mine = holding(undefined, SHORT_MS);
      await acquire(mine);
      await expired(mine.key);
      assert.equal(await locks().extend([mine], TIMEOUT_MS)[0], 'gone');
      assert.equal(await locks().inspect(mine.key, TIMEOUT_MS), null);
    });
  });

  describe('release', () => {
    it('frees its own key once', async () => {
      const mine = holding();
      await acquire(mine);
      assert.equal(await locks().release({ ...mine, keepMs: 0 }, TIMEOUT_MS), 'released');
      assert.equal(await locks().inspect(mine.key, TIMEOUT_MS), null);
      assert.equal(await locks().release({ ...mine, keepMs: 0 }, TIMEOUT_MS), 'gone');
    });

    it("leaves a stranger's key and its life alone", async () => {
      const theirs = holding();
      await acquire(theirs);
      for (const keepMs of [0, SHORT_MS]) {
        const reply = await locks().release({ ...holding(theirs.key), keepMs }, TIMEOUT_MS);
        assert.equal(reply, 'foreign');
      }
      const state = await locks().inspect(theirs.key, TIMEOUT_MS);
      assert.equal(state?.token, theirs.token);
      assert.ok(state.remainingMs > LONG_MS / 2);
    });

    it('keeps the key for keepMs, then lets it go', async () => {
      const mine = holding();
      await acquire(mine);
      assert.equal(await locks().release({ ...mine, keepMs: LONG_MS / 2 }, TIMEOUT_MS), 'released');
      const leftMs = assertBusy(await locks().acquire(holding(mine.key), TIMEOUT_MS), mine.key);
      assert.ok(leftMs > 0 && leftMs <= LONG_MS / 2, String(leftMs));
      assert.equal(await locks().release({ ...mine, keepMs: SHORT_MS }, TIMEOUT_MS), 'released');
      await expired(mine.key);
    });
  });

  describe('abandon, forceRelease and list', () => {
    it('abandon leaves nothing of its own token', async () => {
      const mine = holding();
      await acquire(mine);
      await locks().abandon({ ...mine, leaseMs: SHORT_MS });
      assert.equal(await locks().inspect(mine.key, TIMEOUT_MS), null);
    });

    it("abandon leaves a stranger's token alone", async () => {
      const theirs = holding();
      await acquire(theirs);
      await locks().abandon({ ...holding(theirs.key), leaseMs: SHORT_MS });
      assert.equal((await locks().inspect(theirs.key, TIMEOUT_MS))?.token, theirs.token);
    });

    it('forceRelease frees the key whoever holds it', async () => {
      const theirs = holding();
      assert.equal(await locks().forceRelease(theirs.key, TIMEOUT_MS), false);
      await acquire(theirs);
      assert.equal(await locks().forceRelease(theirs.key, TIMEOUT_MS), true);
      assert.equal(await locks().inspect(theirs.key, TIMEOUT_MS), null);
    });

    it('lists the held locks behind the prefix that match the pattern', async () => {
      const prefix = `${newKey('list')}[*]:`;
      const names = ['order:1', 'order:2', 'order:22', 'stock:a', 'stock:b', 'stock:*', '{tag}:x'];
      for (const name of names) await acquire(holding(prefix + name));
      await acquire(holding(newKey('list')));
      const released = holding(`${prefix}order:3`);
      await acquire(released);
      await locks().release({ ...released, keepMs: 0 }, TIMEOUT_MS);

      const listed = async (pattern: string): Promise<string[]> => {
        const keys = (await collect(locks().list(prefix, pattern, TIMEOUT_MS))).map(({ key }) => key);
        assert.ok(keys.every((key) => key.startsWith(prefix)));
        return [...new Set(keys)].map((key) => key.slice(prefix.length)).sort();
      };
      assert.deepEqual(await listed('*'), [...names].sort());
      assert.deepEqual(await listed('order:*'), ['order:1', 'order:2', 'order:22']);
      assert.deepEqual(await listed('order:?'), ['order:1', 'order:2']);
      assert.deepEqual(await listed('stock:[ab]'), ['stock:a', 'stock:b']);
      assert.deepEqual(await listed('stock:[^a]'), ['stock:*', 'stock:b']);
      assert.deepEqual(await listed('stock:\\*'), ['stock:*']);
      assert.deepEqual(await listed('*:[1-2]'), ['order:1', 'order:2']);
      assert.deepEqual(await listed('nothing'), []);
    });

    it('lists a lock as inspect shows it', async () => {
      const mine = holding();
      const fencingToken = await acquire(mine);
      const [state] = await collect(locks().list('', mine.key, TIMEOUT_MS));
      assert.ok(state);
      assert.ok(state.remainingMs > 0 && state.remainingMs <= LONG_MS);
      assert.deepEqual(
        { ...state, remainingMs: 0 },
        { key: mine.key, token: mine.token, fencingToken, remainingMs: 0, waitingProcesses: 0 },
      );
    });
  });
}
