import type { Cluster } from 'ioredis';
import { runBackendContract } from 'nestjs-redis-lock/testing';
import type { Backend } from '../../lib/backend/backend.js';
import { callsKey, fenceKey, operationsKey, queueKey, slotOf } from '../../lib/backend/redis/keys.js';
import { redisBackend } from '../../lib/backend/redis/redis-backend.js';
import { RedisCluster } from '../support/redis-cluster.js';
import { waitFor } from '../support/wait-for.js';
import { carryOut, closeBackends, lease, operation, run, startBackend, TIMEOUT_MS } from './redis-fixture.js';

let shared: RedisCluster;
beforeAll(async () => {
  shared = await RedisCluster.start();
});
afterAll(() => shared.stop());

runBackendContract('redis cluster', async () => ({
  backend: redisBackend({ redis: shared.client({ keyPrefix: 'app:' }) }),
}));

describe('on a Redis Cluster', () => {
  let cluster: RedisCluster;
  let application: Cluster;
  let backend: Backend;

  beforeAll(async () => {
    cluster = shared;
    application = cluster.client({ keyPrefix: 'app:' });
    backend = await startBackend({ redis: application });
  });
  afterAll(closeBackends);

  const slot = (key: string): Promise<unknown> => cluster.nodes[0]!.client().call('CLUSTER', 'KEYSLOT', key);

  it.each([
    ['plain', 'lock:order:1'],
    ['a hash tag', 'lock:{order:1}:x'],
    ['two tags', '{a}{b}'],
    ['an empty tag first', '{}x'],
    ['spaces', 'lock: a b '],
    ['unicode', 'lock:订单:🔒'],
    ['5 kB', `lock:${'x'.repeat(5_000)}`],
  ])('L39: key and companions lie in one slot, and we count it like Redis: %s', async (_, key) => {
    const names = [key, fenceKey(key), queueKey(key), operationsKey(key, 60_000, 7), callsKey(key, 7)];
    const slots = await Promise.all(names.map(slot));
    expect(names.map(slotOf)).toEqual(slots);
    // an empty tag cannot be completed: such a key is refused before it comes here
    if (!key.startsWith('{}')) expect(new Set(slots).size).toBe(1);
  });

  it('L39, L48: such keys are locked, extended, shown and released under the prefix of the client', async () => {
    for (const key of ['lock:{order:1}:x', 'lock: a b ', 'lock:订单:🔒', `lock:${'x'.repeat(5_000)}`]) {
      const mine = lease(key);
      expect(await backend.locks.acquire(mine, TIMEOUT_MS)).toMatchObject({ status: 'granted' });
      expect(await application.get(key)).toBe(mine.token);
      expect(await backend.locks.extend([mine], TIMEOUT_MS)[0]).toBe('extended');
      expect(await backend.locks.inspect(key, TIMEOUT_MS)).toMatchObject({ key, token: mine.token });
      expect(await slot(fenceKey(`app:${key}`))).toBe(await slot(`app:${key}`));
      expect(await backend.locks.release({ ...mine, keepMs: 0 }, TIMEOUT_MS)).toBe('released');
    }
  });

  it('extends, raises and lists over all nodes, one script for each slot', async () => {
    const many = Array.from({ length: 60 }, (_, at) => lease(`many:${at}`));
    for (const one of many) await backend.locks.acquire(one, TIMEOUT_MS);
    expect(new Set(await Promise.all(backend.locks.extend(many, TIMEOUT_MS)))).toEqual(new Set(['extended']));
    await backend.locks.raiseFence(
      many.map(({ key, ttlMs }) => ({ key, fencingToken: 8e15, ttlMs })),
      TIMEOUT_MS,
    );
    const listed: string[] = [];
    for await (const { key, fencingToken } of backend.locks.list('many:', '*', TIMEOUT_MS)) {
      expect(fencingToken).toBe(8e15);
      listed.push(key);
    }
    expect(listed.sort()).toEqual(many.map(({ key }) => key).sort());
  });

  it('takes and gives back many of one slot and of many slots in one tick', async () => {
    const many = Array.from({ length: 80 }, (_, at) => lease(at % 2 ? `tick:${at}` : `{tick}:${at}`));
    const replies = await Promise.all(many.map((one) => backend.locks.acquire(one, TIMEOUT_MS)));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set(['granted']));
    const released = await Promise.all(
      many.map((one) => backend.locks.release({ ...one, keepMs: 0 }, TIMEOUT_MS)),
    );
    expect(new Set(released)).toEqual(new Set(['released']));
  });

  it('a grant is heard from any node, and a count of listeners says nothing', async () => {
    await backend.locks.inbox.open(TIMEOUT_MS);
    const heard: string[] = [];
    backend.locks.inbox.onGrant(({ key, token }) => heard.push(`${key} ${token}`));
    const keys = Array.from({ length: 12 }, (_, at) => `told:${at}`);
    for (const [at, key] of keys.entries()) {
      const mine = lease(key);
      await backend.locks.acquire(mine, TIMEOUT_MS);
      const token = `${backend.tokenPrefix}-${String(at).padStart(12, '0')}`;
      await backend.locks.acquire({ ...mine, token, queue: true }, TIMEOUT_MS);
      await backend.locks.release({ ...mine, keepMs: 0 }, TIMEOUT_MS);
    }
    await waitFor(() => heard.length === keys.length, { what: 'all grants to be heard' });
    // nobody listens for this one: only its short lease tells so here
    const [mine, dead] = [lease('dead'), lease('dead')];
    await backend.locks.acquire(mine, TIMEOUT_MS);
    await backend.locks.acquire({ ...dead, queue: true }, TIMEOUT_MS);
    await backend.locks.release({ ...mine, keepMs: 0 }, TIMEOUT_MS);
    expect(await application.get('dead')).toBe(dead.token);
  });

  it('takes several keys in one step only in one slot', async () => {
    expect(backend.locks.canAcquireTogether(['a', 'b'])).toBe(false);
    expect(backend.locks.canAcquireTogether(['{t}a', '{t}b'])).toBe(true);
    const both = [lease('{t}a'), lease('{t}b')];
    expect(await backend.locks.acquireAll(both, TIMEOUT_MS)).toMatchObject({ status: 'granted' });
    expect(await backend.locks.forceRelease('{t}a', TIMEOUT_MS)).toBe(true);
  });

  it('L21: SCRIPT FLUSH on every node goes unnoticed', async () => {
    for (const node of cluster.nodes) await node.client().script('FLUSH');
    for (let at = 0; at < 12; at++) {
      expect(await backend.locks.acquire(lease(`flushed:${at}`), TIMEOUT_MS)).toMatchObject({
        status: 'granted',
      });
    }
  });

  it('abandons what may be held', async () => {
    const mine = lease('abandoned', 200);
    await backend.locks.acquire(mine, TIMEOUT_MS);
    await backend.locks.abandon(mine);
    expect(await application.exists('abandoned')).toBe(0);
  });

  it('keeps records and quotas', async () => {
    const mine = run('idem:1');
    expect(await backend.idempotency.begin(mine, TIMEOUT_MS)).toEqual({ status: 'new', attempt: 1 });
    expect(await application.hget('idem:1', 'state')).toBe('pending');
    await backend.quotas.init('quota:m42', 3, TIMEOUT_MS);
    const deduct = () => carryOut(backend, 'quota:m42', { kind: 'deduct', amount: 2 }, operation('o1'));
    expect(await deduct()).toMatchObject({ status: 'granted', remaining: 1 });
    expect(await deduct()).toMatchObject({ replayed: true });
    expect(await carryOut(backend, 'quota:m42', { kind: 'deduct', amount: 1 })).toMatchObject({
      remaining: 0,
    });
    await carryOut(backend, 'quota:m42', { kind: 'grant', amount: 1 });
    expect(await application.hget('quota:m42', 'remain')).toBe('1');
  });
});
