import type { QuotaReply } from '../backend/backend.js';
import {
  QuotaExceededError,
  QuotaNotFoundError,
  QuotaOperationError,
  StoreUnavailableError,
} from '../errors.js';
import type { QuotaReceipt } from './quota.js';

type Granted = Extract<QuotaReply, { status: 'granted' | 'givenBack' }>;

export function receipt(
  name: string,
  { amount, remaining, replayed }: Granted,
  operationId: string | undefined,
): QuotaReceipt {
  // Without an id of the caller's only our own retry can be a replay, and it answers the one call there was.
  if (operationId === undefined) return { key: name, amount, remaining, replayed: false };
  return { key: name, amount, remaining, operationId, replayed };
}

/** The error for each reply that is no success. */
export function failure(
  name: string,
  reply: Exclude<QuotaReply, Granted>,
  { amount, operationId = '' }: { amount: number; operationId?: string | undefined },
): Error {
  const id = JSON.stringify(operationId);
  switch (reply.status) {
    case 'exceeded':
      return new QuotaExceededError(name, amount, reply.remaining);
    case 'notFound':
      return new QuotaNotFoundError(name);
    case 'otherAmount':
      return new QuotaOperationError(
        name,
        operationId,
        `The operation id ${id} was used for something else (amount ${reply.amount}): a new operation needs a new id.`,
      );
    case 'refunded':
      return new QuotaOperationError(
        name,
        operationId,
        reply.amount === 0
          ? `A refund closed the operation ${id} before it took anything: a new operation needs a new id.`
          : `The operation ${id} was refunded: a new operation needs a new id.`,
      );
    case 'unusable':
      return new StoreUnavailableError(
        reply.why === 'noInteger'
          ? `The quota ${JSON.stringify(name)}: its field "remain" holds no integer up to 2^53-1: another program wrote it; correct it with HSET.`
          : `The quota ${JSON.stringify(name)}: it would pass the largest safe integer (2^53-1); nothing was added.`,
        { keys: name },
      );
    case 'elsewhere':
      return new StoreUnavailableError(
        `The quota ${JSON.stringify(name)}: the operation ${id} belongs to a quota that is spread over shards: every ` +
          'process must have the same `quota.shards`.',
        { keys: name },
      );
    case 'overtaken':
    case 'unknown':
      return new StoreUnavailableError(
        `The quota ${JSON.stringify(name)}: the call was overtaken, so its outcome is unknown.`,
        { keys: name, outcome: 'unknown' },
      );
  }
}
