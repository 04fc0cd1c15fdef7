import { randomUUID } from 'node:crypto';
import type { Backend, BeginRequest, OperationRef } from '../../lib/backend/backend.js';
import { redisBackend, type RedisBackendOptions } from '../../lib/backend/redis/redis-backend.js';
import { isRedisLockError, type StoreUnavailableError } from '../../lib/errors.js';

export const TIMEOUT_MS = 1_000;
const open = new Set<Backend>();

/** A started backend; {@link closeBackends} closes it. */
export async function startBackend(options: RedisBackendOptions): Promise<Backend> {
  const backend = redisBackend(options);
  open.add(backend);
  await backend.start(10_000);
  return backend;
}

export async function closeBackends(): Promise<void> {
  await Promise.all([...open].map((backend) => backend.close()));
  open.clear();
}

/** The StoreUnavailableError that a call ends with; anything else fails the test. */
export async function storeError(call: Promise<unknown>): Promise<StoreUnavailableError> {
  const error: unknown = await call.then(
    (value) => new Error(`expected an error, got ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (!isRedisLockError(error, 'STORE_UNAVAILABLE')) throw error;
  return error as StoreUnavailableError;
}

export const lease = (key: string, leaseMs = 30_000) => ({
  key,
  token: randomUUID(),
  leaseMs,
  ttlMs: leaseMs,
  queue: false,
});

export const run = (recordKey: string, over: Partial<BeginRequest> = {}): BeginRequest => ({
  recordKey,
  owner: randomUUID(),
  leaseMs: 30_000,
  ttlMs: 60_000,
  fingerprint: null,
  ...over,
});

export const operation = (operationId?: string): OperationRef => ({
  ...(operationId === undefined ? {} : { operationId }),
  operationTtlMs: 60_000,
  callId: randomUUID(),
});
