import { randomUUID } from 'node:crypto';
import { inMemoryBackend } from 'nestjs-redis-lock/testing';
import type { Backend } from '../../lib/backend/backend.js';
import { redisBackend } from '../../lib/backend/redis/redis-backend.js';
import type { ConfigFault } from '../../lib/errors.js';
import { LockManager } from '../../lib/lock/lock-manager.js';
import { QuotaManager } from '../../lib/quota/quota-manager.js';
import { collectShardPlan, evenShares, homeOf } from '../../lib/quota/shard-plan.js';
import { RedisCluster } from '../support/redis-cluster.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';

let server: RedisServer;
let cluster: RedisCluster;
beforeAll(async () => {
  [server, cluster] = await Promise.all([RedisServer.start(), RedisCluster.start()]);
});
afterAll(() => Promise.all([server.stop(), cluster.stop()]));

const SHARDS = 8;
const shards = collectShardPlan({ 'hot:*': SHARDS }, 'quota.shards', []);

/** An id whose home is this shard. */
function idAt(shard: number): string {
  for (;;) {
    const id = randomUUID();
    if (homeOf(id, SHARDS) === shard) return id;
  }
}

describe.each([
  ['memory', (): Backend => inMemoryBackend()],
  ['one redis', (): Backend => redisBackend({ redis: server.url })],
  ['a cluster', (): Backend => redisBackend({ redis: cluster.client() })],
])('a quota spread over shards on %s', (kind, makeBackend) => {
  let backend: Backend;
  let locks: LockManager;
  /** Two, as two processes have them. */
  let quotas: QuotaManager;
  let others: QuotaManager;
  let count = 0;
  const keyPrefix = 'shop:';
  const newKey = (): string => `hot:${kind.replace(' ', '-')}:${++count}`;

  beforeAll(async () => {
    backend = makeBackend();
    await backend.start(20_000);
    locks = new LockManager({ backend, keyPrefix });
    quotas = new QuotaManager({ backend, keyPrefix, shards, locks });
    others = new QuotaManager({ backend, keyPrefix, shards, locks });
  });
  afterAll(async () => {
    await locks.drain(0);
    await backend.close();
  });

  const rests = (key: string): Promise<Array<number | null>> =>
    Promise.all(
      Array.from({ length: SHARDS }, (_, shard) => backend.quotas.remaining(`shop:${key}:${shard}`, 5_000)),
    );

  it('is created once, in even shares, and tells the sum', async () => {
    const key = newKey();
    expect(await quotas.remaining(key)).toBeNull();
    await expect(quotas.deduct(key)).rejects.toMatchObject({ code: 'QUOTA_NOT_FOUND', key });
    await expect(quotas.deduct(key, 1, { operationId: 'o' })).rejects.toMatchObject({
      code: 'QUOTA_NOT_FOUND',
    });
    const created = await Promise.all([quotas.init(key, 20), others.init(key, 99), quotas.init(key, 7)]);
    expect(created.filter(Boolean)).toHaveLength(1);
    const total = [20, 99, 7][created.indexOf(true)]!;
    expect(await rests(key)).toEqual(evenShares(total, SHARDS));
    expect(await others.remaining(key)).toBe(total);
    expect(await quotas.init(key, 5)).toBe(false);
  });

  it('what a crash left half created is completed by the next init, with the first amount', async () => {
    const key = newKey();
    const [first] = evenShares(20, SHARDS);
    await backend.quotas.initShard(`shop:${key}:0`, `20:${SHARDS}:dead`, first!, 5_000);
    expect(await quotas.init(key, 99)).toBe(false);
    expect(await quotas.remaining(key)).toBe(20);
  });

  it('another number of shards than it stands with is refused', async () => {
    const key = newKey();
    await quotas.init(key, 20);
    const four = collectShardPlan({ 'hot:*': 4 }, 'quota.shards', []);
    const wrong = new QuotaManager({ backend, keyPrefix, shards: four, locks });
    await expect(wrong.init(key, 20)).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
  });

  it('Q10: 8 shards, 1 000 units, 1 500 buyers: exactly 1 000 sold', async () => {
    const key = newKey();
    await quotas.init(key, 1_000);
    const receipts = await Promise.all(
      Array.from({ length: 1_500 }, (_, buyer) =>
        (buyer % 2 ? quotas : others).tryDeduct(key, 1, buyer % 3 ? { operationId: `b:${buyer}` } : {}),
      ),
    );
    expect(receipts.filter((receipt) => receipt !== null)).toHaveLength(1_000);
    expect(await quotas.remaining(key)).toBe(0);
    await expect(quotas.deduct(key)).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED', remaining: 0 });
  });

  it.each([['without an id'], ['with an id']])(
    'Q11: 1 unit left in each shard, %s: 6 are gathered; 9 are refused, and all 8 are still there',
    async (how) => {
      const key = newKey();
      const options = () => (how === 'with an id' ? { operationId: randomUUID() } : {});
      await quotas.init(key, SHARDS);
      expect(await quotas.tryDeduct(key, 9, options())).toBeNull();
      expect(await rests(key)).toEqual(Array.from({ length: SHARDS }, () => 1));
      expect(await quotas.deduct(key, 6, options())).toMatchObject({ amount: 6, replayed: false });
      expect(await quotas.remaining(key)).toBe(2);
      await expect(quotas.deduct(key, 3, options())).rejects.toMatchObject({ requested: 3, remaining: 2 });
      expect(await quotas.deduct(key, 2, options())).toMatchObject({ amount: 2 });
    },
  );

  it('Q4, Q11: a gathered operation is replayed, refunded once to where it came from, and then closed', async () => {
    const key = newKey();
    await quotas.init(key, 2 * SHARDS);
    const receipt = await quotas.deduct(key, 2 * SHARDS - 3, { operationId: 'o1' });
    const before = await rests(key);
    expect(await others.deduct(key, 2 * SHARDS - 3, { operationId: 'o1' })).toEqual({
      ...receipt,
      replayed: true,
    });
    await expect(others.deduct(key, 1, { operationId: 'o1' })).rejects.toMatchObject({
      code: 'QUOTA_OPERATION',
    });
    expect(await rests(key)).toEqual(before);
    const refunds = await Promise.all([quotas.refund(key, 'o1'), others.refund(key, 'o1')]);
    expect(refunds).toEqual([
      expect.objectContaining({ amount: 2 * SHARDS - 3 }),
      expect.objectContaining({ amount: 2 * SHARDS - 3 }),
    ]);
    expect(await rests(key)).toEqual(Array.from({ length: SHARDS }, () => 2));
    expect(await others.refund(key, 'o1')).toMatchObject({ replayed: true });
    await expect(quotas.deduct(key, 13, { operationId: 'o1' })).rejects.toMatchObject({
      code: 'QUOTA_OPERATION',
    });
    expect(await quotas.remaining(key)).toBe(2 * SHARDS);
  });

  it('Q11: many large requests at once are gathered as far as they go, and nothing is lost', async () => {
    const key = newKey();
    await quotas.init(key, 5 * SHARDS);
    const settled = await Promise.allSettled(
      Array.from({ length: 8 }, (_, at) =>
        (at % 2 ? quotas : others).tryDeduct(key, 7, { operationId: `g:${at}` }),
      ),
    );
    const granted = settled.filter((one) => one.status === 'fulfilled' && one.value !== null).length;
    // who waited too long for the others may ask again: with the same id it takes once
    let more = 0;
    for (const [at, one] of settled.entries()) {
      if (one.status === 'fulfilled') continue;
      if (await quotas.tryDeduct(key, 7, { operationId: `g:${at}` })) more++;
    }
    expect(granted + more).toBe(5);
    expect(await quotas.remaining(key)).toBe(5);
  });

  it('Q14: granted away from home, its reply lost, retried by another process: the first receipt', async () => {
    const key = newKey();
    await quotas.init(key, SHARDS);
    const id = idAt(3);
    // its home has nothing left then
    await quotas.deduct(key, 1, { operationId: idAt(3) });
    const first = await quotas.deduct(key, 1, { operationId: id });
    const before = await rests(key);
    expect(before[3]).toBe(0);
    expect(await others.deduct(key, 1, { operationId: id })).toEqual({ ...first, replayed: true });
    expect(await rests(key)).toEqual(before);
    await expect(others.deduct(key, 2, { operationId: id })).rejects.toMatchObject({
      code: 'QUOTA_OPERATION',
    });
    expect(await others.refund(key, id)).toMatchObject({ amount: 1, replayed: false });
    expect(await quotas.refund(key, id)).toMatchObject({ amount: 1, replayed: true });
    await expect(quotas.deduct(key, 1, { operationId: id })).rejects.toMatchObject({
      code: 'QUOTA_OPERATION',
    });
    expect(await quotas.remaining(key)).toBe(SHARDS - 1);
  });

  it('Q14: one id from both processes at once, wherever it ends up, takes once', async () => {
    const key = newKey();
    await quotas.init(key, 2 * SHARDS);
    for (const amount of [1, 1, 2, 3]) {
      const id = idAt(0);
      const before = (await quotas.remaining(key))!;
      const receipts = await Promise.all(
        Array.from({ length: 10 }, (_, at) =>
          (at % 2 ? quotas : others).deduct(key, amount, { operationId: id }),
        ),
      );
      expect(new Set(receipts.map(({ remaining }) => remaining)).size).toBe(1);
      expect(await quotas.remaining(key)).toBe(before - amount);
    }
  });

  it('Q15: an operation that was refunded before it was granted is refused, wherever it was on its way', async () => {
    const key = newKey();
    await quotas.init(key, SHARDS);
    expect(await quotas.refund(key, 'never')).toBeNull();
    await expect(quotas.deduct(key, 1, { operationId: 'never' })).rejects.toMatchObject({
      code: 'QUOTA_OPERATION',
    });
    // a process died after it had moved the operation, or in the middle of gathering
    for (const place of ['at:5:1', 'gather:1:dead']) {
      const id = idAt(2);
      const operation = { operationId: id, operationTtlMs: 86_400_000 };
      await backend.quotas.move(`shop:${key}:2`, operation, '', place, 5_000);
      if (place.startsWith('gather')) await backend.quotas.takePart(`shop:${key}:4`, operation, 1, 1, 5_000);
      expect(await others.refund(key, id)).toBeNull();
      expect(await others.refund(key, id)).toBeNull();
      await expect(quotas.deduct(key, 1, { operationId: id })).rejects.toMatchObject({
        code: 'QUOTA_OPERATION',
      });
      // the dead one's last request arrives
      expect(await backend.quotas.deductAt(`shop:${key}:5`, operation, 1, 1, 5_000)).toMatchObject({
        status: 'exceeded',
      });
      expect(await quotas.remaining(key)).toBe(SHARDS);
    }
  });

  it('Q14: what a process that died in the middle of gathering has taken is undone by the retry, and granted once', async () => {
    const key = newKey();
    await quotas.init(key, SHARDS);
    const id = idAt(6);
    const operation = { operationId: id, operationTtlMs: 86_400_000 };
    await backend.quotas.move(`shop:${key}:6`, operation, '', 'gather:1:dead', 5_000);
    for (const shard of [0, 1, 6]) {
      expect(await backend.quotas.takePart(`shop:${key}:${shard}`, operation, 1, 6, 5_000)).toBe(1);
    }
    expect(await others.deduct(key, 6, { operationId: id })).toMatchObject({ amount: 6, replayed: false });
    expect(await others.remaining(key)).toBe(SHARDS - 6);
    // the dead one's last requests arrive
    for (let shard = 0; shard < SHARDS; shard++) {
      const late = await backend.quotas.takePart(`shop:${key}:${shard}`, operation, 1, 6, 5_000);
      expect([null, 0]).toContain(late);
    }
    expect(
      await backend.quotas.move(`shop:${key}:6`, operation, 'gather:1:dead', 'gathered:6:2:1:0', 5_000),
    ).toMatch(/^gathered:6:\d+:[2-9]/);
    expect(await others.remaining(key)).toBe(SHARDS - 6);
  });

  it('Q16: refused, restocked, the same operation id again: granted', async () => {
    const key = newKey();
    await quotas.init(key, SHARDS);
    expect(await quotas.tryDeduct(key, 9, { operationId: 'o1' })).toBeNull();
    expect(await quotas.grant(key, 4, { operationId: 'g1' })).toMatchObject({ amount: 4, replayed: false });
    expect(await others.grant(key, 4, { operationId: 'g1' })).toMatchObject({ amount: 4, replayed: true });
    await others.grant(key, 2);
    expect(await quotas.deduct(key, 9, { operationId: 'o1' })).toMatchObject({ replayed: false });
    expect(await quotas.remaining(key)).toBe(5);
  });

  it('Q12: refunds while buyers walk the shards: never oversold, and nobody is refused once things are quiet', async () => {
    const key = newKey();
    await quotas.init(key, 3 * SHARDS);
    const taken: string[] = [];
    let sold = 0;
    let back = 0;
    const buy = async (manager: QuotaManager, id: string): Promise<void> => {
      if (!(await manager.tryDeduct(key, 1, { operationId: id }))) return;
      sold++;
      taken.push(id);
    };
    const giveBack = async (manager: QuotaManager): Promise<void> => {
      const id = taken.pop();
      if (id !== undefined && (await manager.refund(key, id))) back++;
    };
    for (let round = 0; round < 5; round++) {
      await Promise.all(
        Array.from({ length: 60 }, (_, at) =>
          at % 3 === 2 ? giveBack(at % 2 ? quotas : others) : buy(at % 2 ? quotas : others, `${round}:${at}`),
        ),
      );
      expect(await quotas.remaining(key)).toBe(3 * SHARDS - sold + back);
    }
    // quiet: exactly what is left is sold, one by one, to whoever comes
    for (let left = (await quotas.remaining(key))!; left > 0; left--) {
      expect(
        await (left % 2 ? quotas : others).tryDeduct(key, 1, { operationId: `quiet:${left}` }),
      ).not.toBeNull();
    }
    expect(await quotas.tryDeduct(key)).toBeNull();
  });

  it('Q5: its amounts are checked before anything is asked', async () => {
    const key = newKey();
    for (const amount of [0, -1, 1.5, 2 ** 53, NaN, '3']) {
      await expect(quotas.init(key, amount as number)).rejects.toMatchObject({ code: 'QUOTA_AMOUNT' });
      await expect(quotas.deduct(key, amount as number)).rejects.toMatchObject({ code: 'QUOTA_AMOUNT' });
    }
    expect(await quotas.remaining(key)).toBeNull();
  });
});

describe('shards', () => {
  it('lie on every node of a cluster', async () => {
    const slots = await Promise.all(
      Array.from({ length: SHARDS }, (_, shard) =>
        cluster.nodes[0]!.client().call('CLUSTER', 'KEYSLOT', `quota:m42:${shard}`),
      ),
    );
    expect(new Set(slots.map((slot) => Math.floor((Number(slot) * 3) / 16_384))).size).toBe(3);
  });

  it('the option takes keys and beginnings, the longest first, and refuses what would not spread', async () => {
    const faults: ConfigFault[] = [];
    const plan = collectShardPlan({ a: 2, 'a*': 3, 'ab*': 4, '*': 5 }, 'quota.shards', faults);
    expect(faults).toEqual([]);
    expect(plan.exact.get('a')).toBe(2);
    expect(plan.prefixes).toEqual([
      ['ab', 4],
      ['a', 3],
      ['', 5],
    ]);
    for (const wrong of [
      { '{a}': 2 },
      { a: 1 },
      { a: 1.5 },
      { a: '8' },
      { 'a*b': 2 },
      { '': 2 },
      { a: 1_000 },
    ]) {
      const found: ConfigFault[] = [];
      collectShardPlan(wrong, 'quota.shards', found);
      expect(found).toHaveLength(1);
    }
  });

  it('a key with a hash tag, which would put them all in one slot, is refused', async () => {
    const backend = inMemoryBackend();
    await backend.start(1_000);
    const quotas = new QuotaManager({ backend, shards, locks: new LockManager({ backend }) });
    await expect(quotas.init('hot:{m42}', 8)).rejects.toMatchObject({ code: 'LOCK_KEY' });
    await backend.close();
  });

  it('Q7: a shard that holds text is an error that names it, and nothing is taken', async () => {
    const backend = redisBackend({ redis: server.url });
    await backend.start(5_000);
    const locks = new LockManager({ backend });
    const quotas = new QuotaManager({ backend, shards, locks });
    await quotas.init('hot:text', SHARDS);
    await server.client().hset('hot:text:4', 'remain', 'many');
    await expect(quotas.remaining('hot:text')).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
    const error: unknown = await quotas.deduct('hot:text', 5).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false });
    expect((error as Error).message).toContain('hot:text:4');
    await server.client().hset('hot:text:4', 'remain', 1);
    await waitFor(async () => (await quotas.remaining('hot:text')) === SHARDS);
    await locks.drain(0);
    await backend.close();
  });
});
