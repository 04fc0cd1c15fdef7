import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { isRedisLockError } from '../errors.js';
import {
  globalTestApi,
  LONG_MS,
  newKey,
  TIMEOUT_MS,
  type ContractSubject,
  type ContractTestApi,
  type Subject,
} from './contract/contract-suite.js';
import { idempotencyContract } from './contract/idempotency-contract.js';
import { lockContract } from './contract/lock-contract.js';
import { quotaBatchContract } from './contract/quota-batch-contract.js';
import { quotaContract } from './contract/quota-contract.js';
import { quotaShardContract } from './contract/quota-shard-contract.js';
import { waitingContract } from './contract/waiting-contract.js';

export type { ContractSubject, ContractTestApi } from './contract/contract-suite.js';

const TOKEN_PREFIX = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}$/;

/**
 * The suite that every backend passes: each operation and each answer of `Backend`, on one store. Call it where
 * tests are declared.
 *
 * @param name stands in the suite's title.
 * @param makeBackend makes one that is not started yet; asked a few times, each time for one of its own.
 * @param api a runner's functions; default: its globals. With `node:test`:
 *   `{ describe, it, beforeAll: before, afterAll: after }`.
 */
export function runBackendContract(
  name: string,
  makeBackend: () => Promise<ContractSubject>,
  api: ContractTestApi = globalTestApi(),
): void {
  const { describe, beforeAll, afterAll } = api;
  describe(`backend contract: ${name}`, () => {
    let made: ContractSubject | undefined;
    // A backend's own timers do not keep a process alive, and node:test ends when nothing else does.
    let alive: NodeJS.Timeout | undefined;
    const subject: Subject = () => {
      if (!made) throw new Error('The backend did not start.');
      return made;
    };
    beforeAll(async () => {
      alive = setInterval(() => undefined, 1_000);
      made = await makeBackend();
      await made.backend.start(TIMEOUT_MS);
    });
    afterAll(async () => {
      try {
        await made?.backend.close();
        await made?.dispose?.();
      } finally {
        clearInterval(alive);
      }
    });

    describe('life', () => lifeContract(api, makeBackend, subject));
    describe('locks', () => lockContract(api, subject));
    describe('locks that are waited for', () => waitingContract(api, subject));
    describe('idempotency', () => idempotencyContract(api, subject));
    describe('quotas', () => quotaContract(api, subject));
    describe('quotas in batches', () => quotaBatchContract(api, subject));
    describe('quotas in shards', () => quotaShardContract(api, subject));
  });
}

function lifeContract(
  { it }: ContractTestApi,
  makeBackend: () => Promise<ContractSubject>,
  subject: Subject,
): void {
  const request = () => ({
    key: newKey('lock'),
    token: randomUUID(),
    leaseMs: LONG_MS,
    ttlMs: LONG_MS,
    queue: false,
  });

  it('names its kind, and a token prefix that no other instance has', async () => {
    const other = await makeBackend();
    try {
      assert.ok(subject().backend.kind.length > 0);
      const prefixes = [subject().backend.tokenPrefix, other.backend.tokenPrefix];
      for (const prefix of prefixes) assert.match(prefix, TOKEN_PREFIX);
      assert.notEqual(prefixes[0], prefixes[1]);
    } finally {
      await other.backend.close();
      await other.dispose?.();
    }
  });

  it('is ready once started', async () => {
    await subject().backend.whenReady(TIMEOUT_MS);
  });

  it('after close() refuses every operation, surely not applied, and may be closed again', async () => {
    const other = await makeBackend();
    const { backend } = other;
    try {
      await backend.start(TIMEOUT_MS);
      await backend.close();
      await backend.close();
      const operations = [
        backend.locks.acquire(request(), TIMEOUT_MS),
        ...backend.locks.extend([request()], TIMEOUT_MS),
        backend.idempotency.inspect(newKey('record'), TIMEOUT_MS),
        backend.quotas.remaining(newKey('quota'), TIMEOUT_MS),
      ];
      for (const result of await Promise.allSettled(operations)) {
        assert.equal(result.status, 'rejected');
        assert.ok(isRedisLockError(result.reason, 'STORE_UNAVAILABLE'), String(result.reason));
        assert.equal(Object.getOwnPropertyDescriptor(result.reason, 'outcome')?.value, 'notApplied');
      }
      await assert.rejects(backend.whenReady(50), (error) => isRedisLockError(error, 'STORE_UNAVAILABLE'));
    } finally {
      await other.dispose?.();
    }
  });
}
