import { randomUUID } from 'node:crypto';
import type { QuotaBatch, QuotaCall, QuotaReply, QuotaStore } from '../../backend/backend.js';
import { LONG_MS, TIMEOUT_MS } from './contract-suite.js';

/** Who sends, and what names the operation. */
export interface Sent {
  sender: string;
  number: number;
  operationId?: string;
}

/** By a sender of its own, unless told. */
export const call = (operationId?: string, sender: string = randomUUID()): Sent => ({
  sender,
  number: 1,
  ...(operationId === undefined ? {} : { operationId }),
});

export const batchOf = (
  key: string,
  calls: readonly QuotaCall[],
  over: Partial<QuotaBatch> = {},
): QuotaBatch => ({
  key,
  calls,
  sender: randomUUID(),
  number: 1,
  madeAt: Date.now(),
  operationTtlMs: LONG_MS,
  isShard: false,
  ...over,
});

export async function carryOutOne(
  quotas: QuotaStore,
  key: string,
  one: QuotaCall,
  { sender, number, operationId }: Sent,
): Promise<QuotaReply> {
  const named = one.kind === 'refund' || operationId === undefined ? one : { ...one, operationId };
  const [reply] = await quotas.carryOut(batchOf(key, [named], { sender, number }), TIMEOUT_MS);
  return reply!;
}
