import type {
  BeginReply,
  BeginRequest,
  CompleteReply,
  IdempotencyStore,
  OwnerRequest,
  RecordState,
  RenewReply,
} from '../backend.js';
import { ExpiringMap } from './expiring-map.js';
import { compileGlob } from './glob.js';
import type { MemoryInbox } from './memory-inbox.js';

interface MemoryRecord {
  /** Empty once an unanswered begin was abandoned. */
  owner: string;
  attempt: number;
  fingerprint: string | null;
  /** By the clock; the record itself lives on after it. */
  leaseEndsAt: number;
  /** Present when done. */
  payload?: Buffer;
  /** Whether somebody is to be told when it ends. */
  awaited?: boolean;
}

/** Idempotency records of one process. */
export class MemoryIdempotencyStore implements IdempotencyStore {
  private readonly records: ExpiringMap<MemoryRecord>;

  constructor(
    private readonly clock: () => number,
    private readonly assertOpen: () => void,
    private readonly inbox: MemoryInbox,
  ) {
    this.records = new ExpiringMap(clock);
  }

  async begin(request: BeginRequest): Promise<BeginReply> {
    const { recordKey, owner, leaseMs, ttlMs, fingerprint, queue = false } = request;
    this.assertOpen();
    const lifeMs = Math.max(ttlMs, leaseMs);
    const leaseEndsAt = this.clock() + leaseMs;
    const record = this.records.get(recordKey);
    if (!record) {
      this.records.set(recordKey, { owner, attempt: 1, fingerprint, leaseEndsAt }, lifeMs);
      return { status: 'new', attempt: 1 };
    }
    const { attempt } = record;
    if (fingerprint !== null && record.fingerprint !== null && fingerprint !== record.fingerprint) {
      return { status: 'mismatch' };
    }
    if (record.payload) return { status: 'replay', attempt, payload: Buffer.from(record.payload) };
    if (record.owner === owner) {
      record.leaseEndsAt = leaseEndsAt;
      this.records.prolong(recordKey, lifeMs);
      return { status: 'new', attempt };
    }
    const leftMs = this.leaseLeft(record);
    if (leftMs > 0) {
      record.awaited ||= queue;
      return { status: 'busy', attempt, leaseMs: leftMs };
    }
    Object.assign(record, { owner, attempt: attempt + 1, leaseEndsAt });
    record.fingerprint ??= fingerprint;
    this.records.prolong(recordKey, lifeMs);
    return { status: 'takeover', attempt: attempt + 1 };
  }

  async renew(request: OwnerRequest & { leaseMs: number }): Promise<RenewReply> {
    this.assertOpen();
    const { recordKey, owner, attempt, fingerprint, ttlMs, leaseMs } = request;
    const lifeMs = Math.max(ttlMs, leaseMs);
    const leaseEndsAt = this.clock() + leaseMs;
    const record = this.records.get(recordKey);
    if (!record) {
      this.records.set(recordKey, { owner, attempt, fingerprint, leaseEndsAt }, lifeMs);
      return 'recreated';
    }
    if (record.owner !== owner) return 'lost';
    if (record.payload) return 'ok';
    record.leaseEndsAt = leaseEndsAt;
    this.records.prolong(recordKey, lifeMs);
    return 'ok';
  }

  async complete(request: OwnerRequest & { payload: Buffer }): Promise<CompleteReply> {
    this.assertOpen();
    const { recordKey, owner, attempt, fingerprint, ttlMs } = request;
    const record = this.records.get(recordKey);
    // The caller may go on with its buffer.
    const payload = Buffer.from(request.payload);
    if (!record) {
      this.records.set(recordKey, { owner, attempt, fingerprint, leaseEndsAt: 0, payload }, ttlMs);
      return { status: 'recreated' };
    }
    if (record.payload) {
      if (record.owner === owner) return { status: 'duplicate' };
      return { status: 'lostDone', payload: Buffer.from(record.payload) };
    }
    if (record.owner !== owner) return { status: 'lost' };
    record.payload = payload;
    this.records.prolong(recordKey, ttlMs);
    this.tell(recordKey, record);
    return { status: 'ok' };
  }

  async release({ recordKey, owner }: { recordKey: string; owner: string }): Promise<'ok' | 'lost' | 'gone'> {
    this.assertOpen();
    const record = this.records.get(recordKey);
    if (!record) return 'gone';
    if (!isPendingOf(record, owner)) return 'lost';
    this.records.delete(recordKey);
    this.tell(recordKey, record);
    return 'ok';
  }

  async abandon(request: { recordKey: string; owner: string; ttlMs: number }): Promise<void> {
    const record = this.records.get(request.recordKey);
    if (!record || !isPendingOf(record, request.owner)) return;
    this.tell(request.recordKey, record);
    if (record.attempt === 1) {
      this.records.delete(request.recordKey);
      return;
    }
    Object.assign(record, { owner: '', attempt: record.attempt - 1, leaseEndsAt: 0 });
    this.records.prolong(request.recordKey, request.ttlMs);
  }

  async leave(): Promise<void> {
    // one inbox serves everybody who shares this store: others may still wait
  }

  async *list(prefix: string, pattern: string): AsyncIterable<RecordState> {
    const fits = compileGlob(pattern);
    for (const recordKey of this.records.keys()) {
      if (!recordKey.startsWith(prefix) || !fits(recordKey.slice(prefix.length))) continue;
      const state = await this.inspect(recordKey);
      if (state) yield state;
    }
  }

  async inspect(recordKey: string): Promise<RecordState | null> {
    this.assertOpen();
    const record = this.records.get(recordKey);
    if (!record) return null;
    const { attempt, payload } = record;
    return payload
      ? { recordKey, state: 'done', attempt, leaseMs: 0, payload: Buffer.from(payload) }
      : { recordKey, state: 'pending', attempt, leaseMs: this.leaseLeft(record) };
  }

  async forget(recordKey: string): Promise<boolean> {
    this.assertOpen();
    const record = this.records.get(recordKey);
    if (record) this.tell(recordKey, record);
    return this.records.delete(recordKey);
  }

  /** Drops what has ended. */
  sweep(): void {
    this.records.sweep();
  }

  /** Entries in memory, for tests of growth. */
  get size(): number {
    return this.records.size;
  }

  private tell(recordKey: string, record: MemoryRecord): void {
    if (!record.awaited) return;
    record.awaited = false;
    this.inbox.recordEnded(recordKey);
  }

  private leaseLeft(record: MemoryRecord): number {
    return Math.max(0, Math.ceil(record.leaseEndsAt - this.clock()));
  }
}

function isPendingOf(record: MemoryRecord, owner: string): boolean {
  return record.payload === undefined && record.owner === owner;
}
