import { runBackendContract, type ContractTestApi } from 'nestjs-redis-lock/testing';
import type { Backend, IdempotencyStore, LockStore, QuotaStore } from '../../lib/backend/backend.js';
import { MemoryBackend } from '../../lib/backend/memory/memory-backend.js';

interface Stores {
  locks: Partial<LockStore>;
  idempotency: Partial<IdempotencyStore>;
  quotas: Partial<QuotaStore>;
}

let aheadMs = 0;
const clock = (): number => performance.timeOrigin + performance.now() + aheadMs;
const advance = (ms: number): void => {
  aheadMs += ms;
};

/** A working backend, some operations of which are replaced. */
function broken(changes: (inner: MemoryBackend) => Partial<Stores>): Backend {
  const inner = new MemoryBackend({ clock });
  const { locks = {}, idempotency = {}, quotas = {} } = changes(inner);
  const change = <T extends object>(store: T, replaced: Partial<T>): T =>
    Object.assign(Object.create(store) as T, replaced);
  return {
    kind: inner.kind,
    tokenPrefix: inner.tokenPrefix,
    locks: change<LockStore>(inner.locks, locks),
    idempotency: change<IdempotencyStore>(inner.idempotency, idempotency),
    quotas: change<QuotaStore>(inner.quotas, quotas),
    start: () => inner.start(),
    whenReady: (timeoutMs) => inner.whenReady(timeoutMs),
    close: () => inner.close(),
  };
}

/** Runs the suite as a runner would, and returns the names of the tests that failed. */
async function failures(makeBackend: () => Backend): Promise<string[]> {
  const tests: Array<{ name: string; body: () => void | Promise<void> }> = [];
  const before: Array<() => void | Promise<void>> = [];
  const after: Array<() => void | Promise<void>> = [];
  const api: ContractTestApi = {
    describe: (_name, body) => body(),
    it: (name, body) => tests.push({ name, body }),
    beforeAll: (body) => before.push(body),
    afterAll: (body) => after.push(body),
  };
  runBackendContract('under test', async () => ({ backend: makeBackend(), advance }), api);
  for (const body of before) await body();
  const failed: string[] = [];
  for (const { name, body } of tests) {
    try {
      await body();
    } catch {
      failed.push(name);
    }
  }
  for (const body of after) await body();
  return failed;
}

describe('the contract suite', () => {
  it('runs with the functions it is given, and passes a backend that keeps the contract', async () => {
    expect(await failures(() => broken(() => ({})))).toEqual([]);
  });

  it.each<[string, (inner: MemoryBackend) => Partial<Stores>, RegExp]>([
    [
      'releases without comparing the token',
      ({ locks }) => ({
        locks: { release: async ({ key }) => ((await locks.forceRelease(key)) ? 'released' : 'gone') },
      }),
      /stranger/,
    ],
    [
      'takes a resend of its own token for a stranger',
      ({ locks }) => ({
        locks: {
          acquire: async (request) => {
            const held = await locks.inspect(request.key);
            return held
              ? { status: 'busy', key: request.key, remainingMs: held.remainingMs }
              : locks.acquire(request);
          },
        },
      }),
      /same token again/,
    ],
    [
      'starts its fencing tokens afresh after a release',
      ({ locks }) => ({
        locks: {
          acquire: async (request) => {
            const reply = await locks.acquire(request);
            return reply.status === 'granted' ? { ...reply, fencingToken: 1 } : reply;
          },
        },
      }),
      /fencing token strictly/,
    ],
    [
      'creates a key in extend',
      ({ locks }) => ({
        locks: {
          extend: (requests) =>
            requests.map(async (request) => {
              await locks.acquire(request);
              return 'extended';
            }),
        },
      }),
      /revive|its own answer/,
    ],
    [
      'keeps some of several keys',
      ({ locks }) => ({
        locks: {
          acquireAll: async (requests) => {
            for (const request of requests) {
              const reply = await locks.acquire(request);
              if (reply.status === 'busy') return reply;
            }
            return locks.acquireAll(requests);
          },
        },
      }),
      /takes none/,
    ],
    [
      'completes without asking who owns the record',
      ({ idempotency }) => ({
        idempotency: {
          complete: async (request) => {
            await idempotency.forget(request.recordKey);
            await idempotency.complete(request);
            return { status: 'ok' };
          },
        },
      }),
      /another owner/,
    ],
    [
      'gives up a takeover by deleting the record',
      ({ idempotency }) => ({
        idempotency: {
          abandon: async ({ recordKey }) => {
            await idempotency.forget(recordKey);
          },
        },
      }),
      /later attempt/,
    ],
    [
      'forgets operation ids',
      ({ quotas }) => ({
        quotas: {
          deduct: (key, amount, { operationTtlMs, callId }) =>
            quotas.deduct(key, amount, { operationTtlMs, callId }),
        },
      }),
      /operation id/,
    ],
    [
      'refunds twice',
      ({ quotas }) => ({
        quotas: {
          refund: async (key, operationId, operationTtlMs) => {
            const reply = await quotas.refund(key, operationId, operationTtlMs);
            if (reply.status === 'unknown' || !reply.replayed) return reply;
            const more = await quotas.grant(key, reply.amount, {
              operationTtlMs,
              callId: `${Math.random()}`,
            });
            return more.status === 'granted'
              ? { ...reply, remaining: more.remaining, replayed: false }
              : reply;
          },
        },
      }),
      /gives back once/,
    ],
  ])('fails a backend that %s', async (_fault, changes, expected) => {
    const failed = await failures(() => broken(changes));
    expect(failed.join('\n')).toMatch(expected);
  });

  it('says what is missing where there is no test runner', () => {
    const host = globalThis as Record<string, unknown>;
    const saved = host.describe;
    try {
      delete host.describe;
      expect(() => runBackendContract('x', async () => ({ backend: new MemoryBackend() }))).toThrow(
        /describe/,
      );
    } finally {
      host.describe = saved;
    }
  });
});
