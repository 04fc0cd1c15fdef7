import { runBackendContract, type ContractTestApi } from 'nestjs-redis-lock/testing';
import type {
  AcquireReply,
  Backend,
  IdempotencyStore,
  LockStore,
  QuotaStore,
} from '../../lib/backend/backend.js';
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

/** Takes a key from those who wait for it. */
async function steal(
  locks: MemoryBackend['locks'],
  { key }: { key: string },
  acquire: () => Promise<AcquireReply>,
): Promise<AcquireReply> {
  if (await locks.inspect(key)) return acquire();
  let reply = await acquire();
  while (reply.status === 'busy') {
    await locks.forceRelease(key);
    reply = await acquire();
  }
  return reply;
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
              ? { status: 'busy', key: request.key, remainingMs: held.remainingMs, time: 0 }
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
              await locks.acquire({ ...request, queue: false });
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
              const reply = await locks.acquire({ ...request, queue: false });
              if (reply.status === 'busy') return reply;
            }
            return locks.acquireAll(requests);
          },
        },
      }),
      /takes none/,
    ],
    [
      'gives a free key to whoever finds it, although others wait',
      ({ locks }) => ({
        locks: { acquire: (request) => steal(locks, request, () => locks.acquire(request)) },
      }),
      /free key goes to the first/,
    ],
    [
      'overlooks those who wait for one of several keys',
      ({ locks }) => ({
        locks: {
          acquireAll: async (requests) => {
            for (const request of requests) {
              await steal(locks, request, () => locks.acquire({ ...request, queue: false }));
            }
            return locks.acquireAll(requests);
          },
        },
      }),
      /refuses a free key/,
    ],
    [
      'passes a key on that is to stay',
      ({ locks }) => ({
        locks: { release: (request) => locks.release({ ...request, keepMs: 0 }) },
      }),
      /stays for keepMs/,
    ],
    [
      'takes a resent give-way for a stranger',
      ({ locks }) => ({
        locks: {
          giveWay: async (request) => {
            const held = await locks.inspect(request.key);
            return held?.token === request.next ? { status: 'foreign' } : locks.giveWay(request);
          },
        },
      }),
      /again when it is resent/,
    ],
    [
      'goes on under the same block of fencing tokens',
      ({ locks }) => ({
        locks: {
          giveWay: async (request) => {
            const held = await locks.inspect(request.key);
            const reply = await locks.giveWay(request);
            return reply.status === 'kept' ? { ...reply, fencingToken: held!.fencingToken! + 1 } : reply;
          },
        },
      }),
      /block of fencing tokens/,
    ],
    [
      'leaves a ghost in the queue',
      ({ locks }) => ({ locks: { abandon: (request) => locks.abandon({ ...request, token: 'other' }) } }),
      /out of the queue/,
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
      'tells nobody that a record has ended',
      ({ idempotency }) => ({
        idempotency: { begin: (request) => idempotency.begin({ ...request, queue: false }) },
      }),
      /tell who waits/,
    ],
    [
      'forgets operation ids',
      ({ quotas }) => ({
        quotas: {
          carryOut: (batch) =>
            quotas.carryOut({
              ...batch,
              calls: batch.calls.map((call) =>
                call.kind === 'refund' ? call : { kind: call.kind, amount: call.amount },
              ),
            }),
        },
      }),
      /operation id/,
    ],
    [
      'refunds twice',
      ({ quotas }) => ({
        quotas: {
          carryOut: async (batch) => {
            const replies = await quotas.carryOut(batch);
            const [reply] = replies;
            if (reply?.status !== 'givenBack' || !reply.replayed) return replies;
            const grant = { kind: 'grant' as const, amount: reply.amount };
            await quotas.carryOut({ ...batch, calls: [grant], number: 2 });
            return [{ ...reply, replayed: false }];
          },
        },
      }),
      /gives back once/,
    ],
    [
      'carries a batch out anew when it comes again',
      ({ quotas }) => ({
        quotas: { carryOut: (batch) => quotas.carryOut({ ...batch, sender: `${Math.random()}` }) },
      }),
      /comes again is carried out once/,
    ],
    [
      'stops at the first call that cannot be met',
      ({ quotas }) => ({
        quotas: {
          carryOut: async (batch) => {
            const replies = await quotas.carryOut(batch);
            const first = replies.findIndex(({ status }) => status === 'exceeded');
            return first < 0 ? replies : replies.map((reply, at) => (at > first ? replies[first]! : reply));
          },
        },
      }),
      /does not stop a later/,
    ],
    [
      'forgets what a shard refused',
      ({ quotas }) => {
        let calls = 0;
        return {
          quotas: {
            // later than whatever was refused before
            deductAt: (key, operation, generation, amount) =>
              quotas.deductAt(key, operation, generation + ++calls, amount),
          },
        };
      },
      /refused for good/,
    ],
    [
      'moves an operation from wherever it is',
      ({ quotas }) => ({
        quotas: {
          move: async (key, operation, _from, to) => {
            const from = await quotas.move(key, operation, 'nowhere', to);
            return quotas.move(key, operation, from, to);
          },
        },
      }),
      /moves only from where it is/,
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
