import { randomUUID } from 'node:crypto';
import { inMemoryBackend } from 'nestjs-redis-lock/testing';
import type { QuotaBatch, QuotaCall } from '../../lib/backend/backend.js';
import { MemoryBackend } from '../../lib/backend/memory/memory-backend.js';
import { waitFor } from '../support/wait-for.js';

const TIMEOUT_MS = 1_000;
const request = (key: string, leaseMs = 60_000) => ({
  key,
  token: randomUUID(),
  leaseMs,
  ttlMs: leaseMs,
  queue: false,
});

const batch = (call: QuotaCall): QuotaBatch => ({
  key: 'q',
  calls: [call],
  sender: 'one',
  number: 1,
  madeAt: 0,
  operationTtlMs: 1_000_000,
  isShard: false,
});

describe('inMemoryBackend', () => {
  const nodeEnv = process.env.NODE_ENV;
  const open: MemoryBackend[] = [];
  const started = async (backend: MemoryBackend): Promise<MemoryBackend> => {
    await backend.start();
    open.push(backend);
    return backend;
  };

  afterEach(async () => {
    if (nodeEnv === undefined) delete process.env.NODE_ENV;
    else process.env.NODE_ENV = nodeEnv;
    await Promise.all(open.splice(0).map((backend) => backend.close()));
  });

  describe('in production', () => {
    it('refuses to start, and says what to do', async () => {
      process.env.NODE_ENV = 'production';
      const backend = inMemoryBackend();
      const error: unknown = await backend.start(TIMEOUT_MS).catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: 'LOCK_CONFIG', faults: [{ path: 'backend' }] });
      expect((error as Error).message).toMatch(/NODE_ENV=production/);
      expect((error as Error).message).toMatch(/allowInProduction: true/);
    });

    it('serves nothing after it refused', async () => {
      process.env.NODE_ENV = 'production';
      const backend = inMemoryBackend();
      await expect(backend.start(TIMEOUT_MS)).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
      await expect(backend.locks.acquire(request('a'), TIMEOUT_MS)).rejects.toMatchObject({
        code: 'STORE_UNAVAILABLE',
        outcome: 'notApplied',
      });
      await expect(backend.quotas.init('q', 1, TIMEOUT_MS)).rejects.toMatchObject({
        code: 'STORE_UNAVAILABLE',
      });
    });

    it('starts when it is told to', async () => {
      process.env.NODE_ENV = 'production';
      const backend = await started(new MemoryBackend({ allowInProduction: true }));
      expect(await backend.locks.acquire(request('a'))).toMatchObject({ status: 'granted' });
    });
  });

  describe('shared by two modules', () => {
    it('serves the second after the first has closed', async () => {
      const backend = new MemoryBackend();
      await backend.start();
      await started(backend);
      await backend.close();
      expect(await backend.locks.acquire(request('a'))).toMatchObject({ status: 'granted' });
    });

    it('gives each reader a token prefix of its own, so that their tokens never meet', () => {
      const backend = new MemoryBackend();
      const prefixes = Array.from({ length: 100 }, () => backend.tokenPrefix);
      expect(new Set(prefixes).size).toBe(100);
      for (const prefix of prefixes) {
        expect(`${prefix}-000000000001`).toMatch(
          /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
        );
      }
    });

    it('keeps what it holds over a close and a new start, as a Redis does', async () => {
      const backend = new MemoryBackend();
      await backend.start();
      await backend.quotas.init('q', 5);
      await backend.close();
      await expect(backend.quotas.remaining('q')).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
      await started(backend);
      expect(await backend.quotas.remaining('q')).toBe(5);
    });
  });

  it('whenReady waits for the start, and no longer than its time', async () => {
    const backend = new MemoryBackend();
    await expect(backend.whenReady(1)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
    const ready = backend.whenReady(60_000);
    await started(backend);
    await ready;
  });

  it('begins fencing tokens at the microseconds since 1970, so that they look like those of Redis', async () => {
    const backend = await started(new MemoryBackend());
    const before = (Date.now() - 60_000) * 1_000;
    const reply = await backend.locks.acquire(request('a'));
    expect(reply).toMatchObject({ status: 'granted' });
    const { fencingToken } = reply as { fencingToken: number };
    expect(fencingToken).toBeGreaterThan(before);
    expect(fencingToken).toBeLessThan((Date.now() + 60_000) * 1_000);
  });

  it('keeps locks, records and quotas of one name apart', async () => {
    const backend = await started(new MemoryBackend());
    await backend.locks.acquire(request('same'));
    await backend.quotas.init('same', 3);
    const run = { recordKey: 'same', owner: 'o', leaseMs: 1_000, ttlMs: 1_000, fingerprint: null };
    expect(await backend.idempotency.begin(run)).toEqual({ status: 'new', attempt: 1 });
    expect(await backend.locks.forceRelease('same')).toBe(true);
    expect(await backend.quotas.remaining('same')).toBe(3);
    expect(await backend.idempotency.forget('same')).toBe(true);
  });

  it('keeps its own copy of a payload, and gives copies', async () => {
    const backend = await started(new MemoryBackend());
    const run = { recordKey: 'r', owner: 'o', attempt: 1, leaseMs: 1_000, ttlMs: 60_000, fingerprint: null };
    await backend.idempotency.begin(run);
    const payload = Buffer.from('success');
    await backend.idempotency.complete({ ...run, payload });
    payload.fill(0);
    const replay = async (): Promise<Buffer> => {
      const reply = await backend.idempotency.begin({ ...run, owner: 'other' });
      if (reply.status !== 'replay') throw new Error(reply.status);
      return reply.payload;
    };
    (await replay()).fill(0);
    expect((await replay()).toString()).toBe('success');
  });

  it('refuses a grant that would pass the largest safe integer, and adds nothing', async () => {
    const backend = await started(new MemoryBackend());
    await backend.quotas.init('q', Number.MAX_SAFE_INTEGER);
    const [reply] = await backend.quotas.carryOut(batch({ kind: 'grant', amount: 1 }));
    expect(reply).toEqual({ status: 'unusable', why: 'tooLarge' });
    await expect(backend.quotas.initShard('q', 'plan', 1)).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      outcome: 'notApplied',
      retryable: false,
      key: 'q',
    });
    expect(await backend.quotas.remaining('q')).toBe(Number.MAX_SAFE_INTEGER);
  });

  describe('by its clock', () => {
    let now = 1_000_000;
    const withClock = (): Promise<MemoryBackend> => started(new MemoryBackend({ clock: () => now }));

    it('ends a lease exactly when it is over', async () => {
      const backend = await withClock();
      await backend.locks.acquire(request('a', 1_000));
      now += 999;
      expect(await backend.locks.acquire(request('a'))).toEqual({
        status: 'busy',
        key: 'a',
        remainingMs: 1,
        time: now * 1_000,
      });
      now += 1;
      expect(await backend.locks.acquire(request('a'))).toMatchObject({ status: 'granted' });
    });

    it('forgets who waits when nobody looks for 5 s', async () => {
      const backend = await withClock();
      await backend.locks.acquire(request('a', 60_000));
      await backend.locks.acquire({ ...request('a'), queue: true });
      now += 4_999;
      expect(await backend.locks.inspect('a')).toMatchObject({ waitingProcesses: 1 });
      now += 1;
      expect(await backend.locks.inspect('a')).toMatchObject({ waitingProcesses: 0 });
    });

    it('passes a lock on for 1.5 s, then to the next', async () => {
      const backend = await withClock();
      const mine = request('a', 60_000);
      await backend.locks.acquire(mine);
      const [first, second] = [request('a'), request('a')].map((one) => ({ ...one, queue: true }));
      for (const waiter of [first!, second!]) await backend.locks.acquire(waiter);
      await backend.locks.release({ ...mine, keepMs: 0 });
      now += 1_499;
      expect(await backend.locks.inspect('a')).toMatchObject({ token: first!.token, remainingMs: 1 });
      now += 1;
      expect(await backend.locks.acquire(second!)).toMatchObject({ status: 'granted' });
    });

    it('forgets a fencing counter after max(10 min, 10 × ttl), and still never goes back', async () => {
      const backend = await withClock();
      const first = await backend.locks.acquire(request('a', 1_000));
      now += 600_000;
      const second = await backend.locks.acquire(request('a', 1_000));
      expect((second as { fencingToken: number }).fencingToken).toBeGreaterThan(
        (first as { fencingToken: number }).fencingToken,
      );
    });

    it('knows an operation for its operationTtl, a call for two minutes', async () => {
      const backend = await withClock();
      await backend.quotas.init('q', 10);
      const deduct = async (operationId?: string) =>
        (
          await backend.quotas.carryOut(
            batch({ kind: 'deduct', amount: 1, ...(operationId === undefined ? {} : { operationId }) }),
          )
        )[0];
      await deduct('o');
      await deduct();
      now += 119_999;
      expect(await deduct()).toMatchObject({ replayed: true });
      now += 1;
      expect(await deduct()).toMatchObject({ replayed: false });
      now += 879_999;
      expect(await deduct('o')).toMatchObject({ replayed: true });
      now += 1;
      expect(await deduct('o')).toMatchObject({ replayed: false });
    });

    it('L49: 100 000 keys that nobody asks for again leave no memory behind', async () => {
      const backend = await withClock();
      await backend.quotas.init('q', 1_000_000);
      for (let i = 0; i < 100_000; i++) {
        const lock = request(`lock:${i}`, 1_000);
        void backend.locks.acquire(lock);
        if (i % 2 === 0) void backend.locks.release({ ...lock, keepMs: 0 });
        const run = { recordKey: `r:${i}`, owner: 'o', leaseMs: 1_000, ttlMs: 60_000, fingerprint: null };
        void backend.idempotency.begin(run);
        const call = { kind: 'deduct' as const, amount: 1, operationId: `o:${i}` };
        void backend.quotas.carryOut({ ...batch(call), operationTtlMs: 60_000 });
      }
      expect(backend.size).toBeGreaterThan(300_000);
      now += 600_000;
      await waitFor(() => backend.size === 1, { what: 'the sweep to leave just the quota' });
      expect(await backend.quotas.remaining('q')).toBe(900_000);
    });
  });
});
