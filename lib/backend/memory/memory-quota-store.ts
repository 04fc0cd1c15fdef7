import { StoreUnavailableError } from '../../errors.js';
import type { OperationRef, QuotaReply, QuotaStore, RefundReply } from '../backend.js';
import { ExpiringMap } from './expiring-map.js';

/** How long a call is known again that has no operation id. */
const CALL_LIFE_MS = 120_000;

/** Ids of grants and of deductions are kept apart, so that an order may have one of each. */
type Kind = 'grant' | 'deduct';

/** A granted operation. */
interface Operation {
  amount: number;
  /** What was left right after it. */
  remaining: number;
  /** Present once refunded: what was left right after that. */
  refund?: { remaining: number };
}

/** Quotas of one process. */
export class MemoryQuotaStore implements QuotaStore {
  private readonly quotas = new Map<string, number>();
  private readonly operations: ExpiringMap<Operation>;

  constructor(
    clock: () => number,
    private readonly assertOpen: () => void,
  ) {
    this.operations = new ExpiringMap(clock);
  }

  async init(key: string, amount: number): Promise<boolean> {
    this.assertOpen();
    if (this.quotas.has(key)) return false;
    this.quotas.set(key, amount);
    return true;
  }

  async grant(key: string, amount: number, operation: OperationRef): Promise<QuotaReply> {
    this.assertOpen();
    return this.known('grant', key, amount, operation) ?? this.add(key, amount, operation);
  }

  async deduct(key: string, amount: number, operation: OperationRef): Promise<QuotaReply> {
    this.assertOpen();
    const known = this.known('deduct', key, amount, operation);
    if (known) return known;
    const before = this.quotas.get(key);
    if (before === undefined) return { status: 'notFound' };
    if (before < amount) return { status: 'exceeded', remaining: before };
    const remaining = before - amount;
    this.quotas.set(key, remaining);
    this.remember('deduct', key, operation, { amount, remaining });
    return { status: 'granted', amount, remaining, replayed: false };
  }

  async refund(key: string, operationId: string, operationTtlMs: number): Promise<RefundReply> {
    this.assertOpen();
    const recordKey = operationKey('deduct', key, { operationId });
    const operation = this.operations.get(recordKey);
    if (!operation) return { status: 'unknown' };
    const { amount } = operation;
    if (operation.refund) {
      return { status: 'refunded', amount, remaining: operation.refund.remaining, replayed: true };
    }
    const remaining = this.sum(key, amount);
    this.quotas.set(key, remaining);
    operation.refund = { remaining };
    this.operations.prolong(recordKey, operationTtlMs);
    return { status: 'refunded', amount, remaining, replayed: false };
  }

  async remaining(key: string): Promise<number | null> {
    this.assertOpen();
    return this.quotas.get(key) ?? null;
  }

  /** Drops what has ended. */
  sweep(): void {
    this.operations.sweep();
  }

  /** Entries in memory, for tests of growth. */
  get size(): number {
    return this.quotas.size + this.operations.size;
  }

  private add(key: string, amount: number, operation: OperationRef): QuotaReply {
    const remaining = this.sum(key, amount);
    this.quotas.set(key, remaining);
    this.remember('grant', key, operation, { amount, remaining });
    return { status: 'granted', amount, remaining, replayed: false };
  }

  private sum(key: string, amount: number): number {
    const sum = (this.quotas.get(key) ?? 0) + amount;
    if (Number.isSafeInteger(sum)) return sum;
    throw new StoreUnavailableError(
      `The quota ${JSON.stringify(key)} would pass the largest safe integer (2^53 - 1): nothing was added.`,
      { keys: key },
    );
  }

  private remember(kind: Kind, key: string, operation: OperationRef, value: Operation): void {
    const lifeMs = operation.operationId === undefined ? CALL_LIFE_MS : operation.operationTtlMs;
    this.operations.set(operationKey(kind, key, operation), value, lifeMs);
  }

  private known(kind: Kind, key: string, amount: number, operation: OperationRef): QuotaReply | undefined {
    const known = this.operations.get(operationKey(kind, key, operation));
    if (!known) return undefined;
    if (known.amount !== amount) return { status: 'otherAmount', amount: known.amount };
    if (known.refund) return { status: 'refunded', amount };
    return { status: 'granted', amount, remaining: known.remaining, replayed: true };
  }
}

/** The key's length in front: no key and id can be read as another key and id. */
function operationKey(
  kind: Kind,
  key: string,
  { operationId, callId }: { operationId?: string; callId?: string },
): string {
  const id = operationId === undefined ? `call:${callId}` : `id:${operationId}`;
  return `${kind}:${key.length}:${key}:${id}`;
}
