import { randomUUID } from 'node:crypto';
import type { Backend, BeginRequest, QuotaCall, QuotaReply } from '../../lib/backend/backend.js';
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

/** Who sends a call, and what names its operation. */
export interface SentCall {
  sender: string;
  operationId?: string;
  operationTtlMs: number;
}

export const operation = (operationId?: string): SentCall => ({
  ...(operationId === undefined ? {} : { operationId }),
  operationTtlMs: 60_000,
  sender: randomUUID(),
});

/** One call on a quota, as a batch of its own. */
export async function carryOut(
  { quotas }: Backend,
  key: string,
  call: QuotaCall,
  { operationId, ...sent }: SentCall = operation(),
): Promise<QuotaReply> {
  const named = call.kind === 'refund' || operationId === undefined ? call : { ...call, operationId };
  const batch = { key, calls: [named], number: 1, madeAt: Date.now(), isShard: false, ...sent };
  return (await quotas.carryOut(batch, TIMEOUT_MS))[0]!;
}
