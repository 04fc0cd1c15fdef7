import { StoreUnavailableError } from '../../errors.js';
import type {
  GiveBackReply,
  OperationRef,
  QuotaBatch,
  QuotaCall,
  QuotaReply,
  QuotaStore,
  ShardReply,
  ShardState,
} from '../backend.js';
import { ExpiringMap } from './expiring-map.js';

/** How long a sender's last batch is known again. */
const CALL_LIFE_MS = 120_000;

interface Quota {
  remaining: number;
  version: number;
  plan?: string;
}

/** What a sender's last batch did for its calls without an operation id. */
interface LastBatch {
  number: number;
  replies: QuotaReply[];
}

type Amounts = readonly [amount: number, remaining: number];

/** Quotas of one process. Records of operations are kept as the texts that the contract names. */
export class MemoryQuotaStore implements QuotaStore {
  private readonly quotas = new Map<string, Quota>();
  private readonly operations: ExpiringMap<string>;
  private readonly batches: ExpiringMap<LastBatch>;

  constructor(
    clock: () => number,
    private readonly assertOpen: () => void,
  ) {
    this.operations = new ExpiringMap(clock);
    this.batches = new ExpiringMap(clock);
  }

  async init(key: string, amount: number): Promise<boolean> {
    this.assertOpen();
    if (this.quotas.has(key)) return false;
    this.quotas.set(key, { remaining: amount, version: 0 });
    return true;
  }

  async carryOut(batch: QuotaBatch): Promise<QuotaReply[]> {
    this.assertOpen();
    const { key, calls, sender, number, operationTtlMs } = batch;
    const plain = calls.filter((call) => call.kind !== 'refund' && call.operationId === undefined);
    const batchKey = nameOf(sender, key, '');
    const last = plain.length > 0 ? this.batches.get(batchKey) : undefined;
    if (last && last.number > number) return calls.map(() => ({ status: 'overtaken' }));
    const known = last?.number === number ? [...last.replies] : undefined;

    const replies: QuotaReply[] = [];
    const fresh: QuotaReply[] = [];
    for (const call of calls) {
      if (call.kind === 'refund') {
        replies.push(this.refund(key, { operationId: call.operationId, operationTtlMs }));
      } else if (call.operationId !== undefined) {
        const operation = { operationId: call.operationId, operationTtlMs };
        replies.push(this.carryOutOnce(key, call, operation));
      } else if (known) {
        const reply = known.shift()!;
        replies.push(reply.status === 'granted' ? { ...reply, replayed: true } : reply);
      } else {
        const reply = call.kind === 'deduct' ? this.take(key, call.amount) : this.add(key, call.amount);
        fresh.push(reply);
        replies.push(reply);
      }
    }
    if (fresh.some(({ status }) => status === 'granted')) {
      this.batches.set(batchKey, { number, replies: fresh }, CALL_LIFE_MS);
    }
    return replies;
  }

  async remaining(key: string): Promise<number | null> {
    this.assertOpen();
    return this.quotas.get(key)?.remaining ?? null;
  }

  async initShard(key: string, plan: string, share: number): Promise<string> {
    this.assertOpen();
    const quota = this.quotas.get(key) ?? { remaining: 0, version: 0 };
    if (quota.plan !== undefined) return quota.plan;
    if (!Number.isSafeInteger(quota.remaining + share)) throw tooLarge(key);
    this.quotas.set(key, { remaining: quota.remaining + share, version: quota.version + 1, plan });
    return plan;
  }

  async look(key: string): Promise<ShardState | null> {
    this.assertOpen();
    const quota = this.quotas.get(key);
    return quota ? { ...quota } : null;
  }

  async move(key: string, operation: OperationRef, from: string, to: string): Promise<string> {
    this.assertOpen();
    const recordKey = nameOf('deduct', key, operation.operationId);
    const standing = this.operations.get(recordKey) ?? '';
    if (standing !== from) return standing;
    this.operations.set(recordKey, to, operation.operationTtlMs);
    return to;
  }

  async deductAt(
    key: string,
    operation: OperationRef,
    generation: number,
    amount: number,
  ): Promise<ShardReply> {
    this.assertOpen();
    const recordKey = nameOf('shard', key, operation.operationId);
    const record = this.operations.get(recordKey);
    const known = record === undefined ? undefined : again(record, amount);
    if (known && known.status !== 'elsewhere') return known;
    const remaining = this.quotas.get(key)?.remaining ?? 0;
    if (record !== undefined && !mayTake(record, generation)) return { status: 'exceeded', remaining };
    const reply = this.take(key, amount);
    if (reply.status === 'granted') {
      this.operations.set(recordKey, `done:${amount}:${reply.remaining}`, operation.operationTtlMs);
      return reply;
    }
    this.operations.set(recordKey, `no:${generation}`, operation.operationTtlMs);
    return { status: 'exceeded', remaining };
  }

  async takePart(
    key: string,
    operation: OperationRef,
    generation: number,
    wanted: number,
  ): Promise<number | null> {
    this.assertOpen();
    const recordKey = nameOf('shard', key, operation.operationId);
    const record = this.operations.get(recordKey);
    if (record !== undefined) {
      const [holder, held] = numbersOf(record);
      if (record.startsWith('part:') && holder === generation) return held;
      if (!mayTake(record, generation)) return null;
    }
    const quota = this.quotas.get(key);
    const part = Math.min(wanted, Math.max(quota?.remaining ?? 0, 0));
    if (part > 0) {
      quota!.remaining -= part;
      this.operations.set(recordKey, `part:${generation}:${part}`, operation.operationTtlMs);
    }
    return part;
  }

  async giveBackAt(key: string, operation: OperationRef, generation: number): Promise<GiveBackReply> {
    this.assertOpen();
    const recordKey = nameOf('shard', key, operation.operationId);
    const record = this.operations.get(recordKey) ?? '';
    const [first, second] = numbersOf(record);
    if (record.startsWith('refunded:')) {
      return { status: 'givenBack', amount: first, remaining: second, replayed: true };
    }
    const isPart = record.startsWith('part:');
    const refused = isPart || record.startsWith('no:') ? Math.max(first, generation) : generation;
    if (!isPart && !record.startsWith('done:')) {
      this.operations.set(recordKey, `no:${refused}`, operation.operationTtlMs);
      return { status: 'nothing' };
    }
    const amount = isPart ? second : first;
    const added = this.add(key, amount);
    if (added.status === 'unusable') return added;
    const { remaining } = this.quotas.get(key)!;
    const after = isPart ? `no:${refused}` : `refunded:${amount}:${remaining}`;
    this.operations.set(recordKey, after, operation.operationTtlMs);
    return isPart
      ? { status: 'partReturned', amount }
      : { status: 'givenBack', amount, remaining, replayed: false };
  }

  /** Drops what has ended. */
  sweep(): void {
    this.operations.sweep();
    this.batches.sweep();
  }

  /** Entries in memory, for tests of growth. */
  get size(): number {
    return this.quotas.size + this.operations.size + this.batches.size;
  }

  private carryOutOnce(
    key: string,
    { kind, amount }: Extract<QuotaCall, { amount: number }>,
    { operationId, operationTtlMs }: OperationRef,
  ): QuotaReply {
    const recordKey = nameOf(kind, key, operationId);
    const record = this.operations.get(recordKey);
    if (record !== undefined) return again(record, amount);
    const reply = kind === 'deduct' ? this.take(key, amount) : this.add(key, amount);
    if (reply.status === 'granted') {
      this.operations.set(recordKey, `done:${amount}:${reply.remaining}`, operationTtlMs);
    }
    return reply;
  }

  private refund(key: string, { operationId, operationTtlMs }: OperationRef): QuotaReply {
    const recordKey = nameOf('deduct', key, operationId);
    const record = this.operations.get(recordKey);
    if (record === undefined) this.operations.set(recordKey, 'void', operationTtlMs);
    if (record === undefined || record === 'void') return { status: 'unknown' };
    const [amount, left] = numbersOf(record);
    if (record.startsWith('refunded:')) {
      return { status: 'givenBack', amount, remaining: left, replayed: true };
    }
    if (!record.startsWith('done:')) return { status: 'elsewhere', place: record };
    if (!this.quotas.has(key)) return { status: 'unknown' };
    const added = this.add(key, amount);
    if (added.status === 'unusable') return added;
    const { remaining } = this.quotas.get(key)!;
    this.operations.set(recordKey, `refunded:${amount}:${remaining}`, operationTtlMs);
    return { status: 'givenBack', amount, remaining, replayed: false };
  }

  private take(
    key: string,
    amount: number,
  ): Extract<QuotaReply, { status: 'granted' | 'exceeded' | 'notFound' }> {
    const quota = this.quotas.get(key);
    if (!quota) return { status: 'notFound' };
    if (quota.remaining < amount) return { status: 'exceeded', remaining: quota.remaining };
    quota.remaining -= amount;
    return { status: 'granted', amount, remaining: quota.remaining, replayed: false };
  }

  private add(key: string, amount: number): Extract<QuotaReply, { status: 'granted' | 'unusable' }> {
    const quota = this.quotas.get(key) ?? { remaining: 0, version: 0 };
    if (!Number.isSafeInteger(quota.remaining + amount)) return { status: 'unusable', why: 'tooLarge' };
    quota.remaining += amount;
    quota.version++;
    this.quotas.set(key, quota);
    return { status: 'granted', amount, remaining: quota.remaining, replayed: false };
  }
}

/** What a deduction, or a grant, of a known operation is told. */
function again(
  record: string,
  amount: number,
): Extract<QuotaReply, { status: 'granted' | 'otherAmount' | 'refunded' | 'elsewhere' }> {
  if (record === 'void') return { status: 'refunded', amount: 0 };
  const isRefunded = record.startsWith('refunded:');
  if (!isRefunded && !record.startsWith('done:')) return { status: 'elsewhere', place: record };
  const [had, remaining] = numbersOf(record);
  if (had !== amount) return { status: 'otherAmount', amount: had };
  return isRefunded
    ? { status: 'refunded', amount }
    : { status: 'granted', amount, remaining, replayed: true };
}

/** Only a later generation than the one that was refused. */
function mayTake(record: string, generation: number): boolean {
  return record.startsWith('no:') && generation > numbersOf(record)[0];
}

function numbersOf(record: string): Amounts {
  const [, first, second] = record.split(':');
  return [Number(first), Number(second)];
}

/** The lengths in front: no key and id can be read as another key and id. */
function nameOf(kind: string, key: string, id: string): string {
  return `${kind.length}:${kind}:${key.length}:${key}:${id}`;
}

function tooLarge(key: string): StoreUnavailableError {
  return new StoreUnavailableError(
    `The quota ${JSON.stringify(key)} would pass the largest safe integer (2^53 - 1): nothing was added.`,
    { keys: key },
  );
}
