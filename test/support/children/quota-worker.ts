import { randomUUID } from 'node:crypto';
import { Cluster, Redis } from 'ioredis';
import { redisBackend } from '../../../lib/backend/redis/redis-backend.js';
import { isRedisLockError } from '../../../lib/errors.js';
import { LockManager } from '../../../lib/lock/lock-manager.js';
import { QuotaManager } from '../../../lib/quota/quota-manager.js';
import { collectShardPlan } from '../../../lib/quota/shard-plan.js';

/**
 * A process whose tasks take from two quotas and give back, again and again, and write down in a ledger (another Redis)
 * what they begin, before they begin it, and what they were told. It begins with what a dead process left unfinished.
 */
const [ports = '', ledgerUrl = '', name = ''] = process.argv.slice(2);
const TASKS = 8;
const HELD_AT_MOST = 6;

const cluster = new Cluster(
  ports.split(',').map((port) => ({ host: '127.0.0.1', port: Number(port) })),
  { clusterRetryStrategy: () => 100 },
);
cluster.on('error', () => undefined);
const backend = redisBackend({ redis: cluster });
const locks = new LockManager({ backend });
const quotas = new QuotaManager({
  backend,
  locks,
  shards: collectShardPlan({ 'hot:*': 8 }, 'quota.shards', []),
});
const ledger = new Redis(ledgerUrl);
const stopping = new AbortController();
let calls = 0;
process.on('message', () => stopping.abort());

interface Begun {
  id: string;
  key: string;
  amount: number;
}

/** Until there is an answer: the same id may be asked for as often as one likes. */
async function untilTold<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      calls++;
      return await call();
    } catch (error) {
      if (!isRedisLockError(error) || !['STORE_UNAVAILABLE', 'LOCK_LOST'].includes(error.code)) throw error;
    }
  }
}

async function take({ id, key, amount }: Begun): Promise<boolean> {
  const receipt = await untilTold(() => quotas.tryDeduct(key, amount, { operationId: id }));
  await ledger.hset(receipt ? 'granted' : 'refused', id, amount);
  return receipt !== null;
}

async function giveBack({ id, key, amount }: Begun): Promise<void> {
  await ledger.hset('returning', id, amount);
  const receipt = await untilTold(() => quotas.refund(key, id));
  if (receipt?.amount !== amount)
    await ledger.rpush('violations', `refund of ${id}: ${JSON.stringify(receipt)}`);
  await ledger.hset('refunded', id, amount);
}

/** What a dead process had begun, and was told nothing about. */
async function takeOver(): Promise<void> {
  for (;;) {
    const text = await ledger.lpop('left');
    if (text === null) return;
    const begun = JSON.parse(text) as Begun;
    try {
      await take(begun);
    } catch (error) {
      // it had been given back already
      if (!isRedisLockError(error, 'QUOTA_OPERATION')) throw error;
    }
  }
}

async function task(): Promise<void> {
  const held: Begun[] = [];
  while (!stopping.signal.aborted) {
    const amount = Math.random() < 0.1 ? 20 : 1 + Math.floor(Math.random() * 3);
    const begun = { id: randomUUID(), key: Math.random() < 0.5 ? 'plain' : 'hot:x', amount };
    await ledger.hset('begun', begun.id, JSON.stringify({ ...begun, name }));
    if (await take(begun)) held.push(begun);
    if (held.length > HELD_AT_MOST || Math.random() < 0.4) {
      const [one] = held.splice(Math.floor(Math.random() * held.length), 1);
      if (one) await giveBack(one);
    }
  }
}

async function main(): Promise<void> {
  await backend.start(20_000).catch(() => undefined);
  process.send!({ ready: name });
  await takeOver();
  await Promise.all(Array.from({ length: TASKS }, task));
  process.send!({ done: name, calls });
  await locks.drain(0);
  await backend.close();
  cluster.disconnect();
  ledger.disconnect();
  process.disconnect();
}

void main().catch((error: unknown) => ledger.rpush('violations', `${name}: ${String(error)}`));
