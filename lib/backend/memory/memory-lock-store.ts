import {
  FENCE_BLOCK,
  PASSED_ON_LEASE_MS,
  type AcquireReply,
  type AcquireRequest,
  type ExtendReply,
  type ExtendRequest,
  type GiveWayReply,
  type GiveWayRequest,
  type Granted,
  type LeaseRef,
  type LockState,
  type LockStore,
  type ReleaseReply,
  type StoreTime,
} from '../backend.js';
import { ExpiringMap } from './expiring-map.js';
import { compileGlob } from './glob.js';
import { MemoryInbox } from './memory-inbox.js';

/** How long a queue lives after the last look of anybody who stands in it, in milliseconds. */
const QUEUE_LIFE_MS = 5_000;

/** How long a fencing counter lives after its last use, as the protocol has it. */
const fenceLifeMs = (ttlMs: number): number => Math.max(600_000, 10 * ttlMs);

/** Locks of one process. Nothing waits inside an operation, so each is one step for everybody else. */
export class MemoryLockStore implements LockStore {
  readonly inbox = new MemoryInbox();
  /** There is no connection that could close. */
  readonly epoch = 0;
  private readonly tokens: ExpiringMap<string>;
  /** The highest fencing token handed out or reserved. */
  private readonly fences: ExpiringMap<number>;
  /** Who waits, first come first: the token that each one's next lease will have. */
  private readonly queues: ExpiringMap<Set<string>>;

  constructor(
    private readonly clock: () => number,
    private readonly assertOpen: () => void,
  ) {
    this.tokens = new ExpiringMap(clock);
    this.fences = new ExpiringMap(clock);
    this.queues = new ExpiringMap(clock);
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    this.assertOpen();
    const { key, token, leaseMs, ttlMs, queue } = request;
    const owned = this.ownership(request);
    if (owned === 'own') {
      this.tokens.prolong(key, leaseMs);
      return this.grant([request]);
    }
    if (owned === 'gone') {
      const [first = token] = this.queues.get(key) ?? [];
      if (first === token) {
        this.dequeue(key, token);
        this.tokens.set(key, token, leaseMs);
        return this.grant([request]);
      }
      this.pass(key, ttlMs);
    }
    if (queue) this.enqueue(key, token);
    return this.busy(key);
  }

  canAcquireTogether(): boolean {
    return true;
  }

  async acquireAll(requests: ReadonlyArray<Omit<AcquireRequest, 'queue'>>): Promise<AcquireReply> {
    this.assertOpen();
    for (const request of requests) {
      const owned = this.ownership(request);
      const isAwaited = owned === 'gone' && this.queues.get(request.key) !== undefined;
      if (owned === 'foreign' || isAwaited) return this.busy(request.key);
    }
    for (const { key, token, leaseMs } of requests) {
      if (this.tokens.get(key) === token) this.tokens.prolong(key, leaseMs);
      else this.tokens.set(key, token, leaseMs);
    }
    return this.grant(requests);
  }

  async raiseFence(
    requests: ReadonlyArray<{ key: string; fencingToken: number; ttlMs: number }>,
  ): Promise<void> {
    this.assertOpen();
    for (const { key, fencingToken, ttlMs } of requests) {
      this.setFence(key, Math.max(fencingToken + FENCE_BLOCK - 1, this.fences.get(key) ?? 0), ttlMs);
    }
  }

  extend(requests: readonly ExtendRequest[]): Array<Promise<ExtendReply>> {
    return requests.map(async ({ key, token, leaseMs, ttlMs }) => {
      this.assertOpen();
      const owned = this.ownership({ key, token });
      if (owned !== 'own') return owned;
      this.tokens.prolong(key, leaseMs);
      this.fences.expire(key, fenceLifeMs(ttlMs));
      return 'extended';
    });
  }

  async release({
    key,
    token,
    keepMs,
    ttlMs,
  }: LeaseRef & { keepMs: number; ttlMs: number }): Promise<ReleaseReply> {
    this.assertOpen();
    const owned = this.ownership({ key, token });
    if (owned !== 'own') return owned;
    if (keepMs > 0) this.tokens.expire(key, keepMs);
    else this.pass(key, ttlMs);
    return 'released';
  }

  async giveWay(request: GiveWayRequest): Promise<GiveWayReply> {
    this.assertOpen();
    const { key, token, next, leaseMs, ttlMs } = request;
    const isResent = this.ownership({ key, token: next }) === 'own';
    const owned = this.ownership({ key, token });
    if (!isResent && owned !== 'own') return { status: owned };
    if (isResent) {
      this.tokens.prolong(key, leaseMs);
    } else if (this.pass(key, ttlMs)) {
      this.enqueue(key, next);
      return { status: 'released', time: this.time() };
    } else {
      this.tokens.set(key, next, leaseMs);
    }
    return { ...this.grant([{ key, ttlMs }]), status: 'kept' };
  }

  async abandon({ key, token, ttlMs }: LeaseRef & { ttlMs: number }): Promise<void> {
    this.dequeue(key, token);
    if (this.ownership({ key, token }) === 'own') this.pass(key, ttlMs);
  }

  async inspect(key: string): Promise<LockState | null> {
    this.assertOpen();
    return this.state(key);
  }

  async *list(prefix: string, pattern: string): AsyncIterable<LockState> {
    this.assertOpen();
    const fits = compileGlob(pattern);
    for (const key of this.tokens.keys()) {
      if (!key.startsWith(prefix) || !fits(key.slice(prefix.length))) continue;
      const state = this.state(key);
      if (state) yield state;
    }
  }

  async forceRelease(key: string): Promise<boolean> {
    this.assertOpen();
    const token = this.tokens.get(key);
    if (token === undefined) return false;
    this.inbox.taken({ key, token });
    this.pass(key, 0);
    return true;
  }

  /** Drops what has ended. */
  sweep(): void {
    this.tokens.sweep();
    this.fences.sweep();
    this.queues.sweep();
  }

  /** Entries in memory, for tests of growth. */
  get size(): number {
    return this.tokens.size + this.fences.size + this.queues.size;
  }

  /** Reserves one block of fencing tokens for all of these keys. */
  private grant(requests: ReadonlyArray<{ key: string; ttlMs: number }>): Granted {
    const time = this.time();
    // grows by the clock even where the counter has been forgotten
    let fencingToken = time;
    for (const { key } of requests) fencingToken = Math.max(fencingToken, (this.fences.get(key) ?? 0) + 1);
    for (const { key, ttlMs } of requests) this.setFence(key, fencingToken + FENCE_BLOCK - 1, ttlMs);
    return { status: 'granted', fencingToken, time };
  }

  private busy(key: string): AcquireReply {
    return { status: 'busy', key, remainingMs: this.tokens.remainingMs(key), time: this.time() };
  }

  /** Gives the key to the first who waits, with a short lease, and tells so; frees it when nobody does. */
  private pass(key: string, ttlMs: number): boolean {
    const [token] = this.queues.get(key) ?? [];
    if (token === undefined) {
      this.tokens.delete(key);
      return false;
    }
    this.dequeue(key, token);
    this.tokens.set(key, token, PASSED_ON_LEASE_MS);
    const { fencingToken, time } = this.grant([{ key, ttlMs }]);
    this.inbox.granted({ key, token, fencingToken, time });
    return true;
  }

  private enqueue(key: string, token: string): void {
    this.queues.set(key, (this.queues.get(key) ?? new Set<string>()).add(token), QUEUE_LIFE_MS);
  }

  private dequeue(key: string, token: string): void {
    const queue = this.queues.get(key);
    if (queue?.delete(token) && queue.size === 0) this.queues.delete(key);
  }

  private time(): StoreTime {
    return Math.floor(this.clock() * 1_000);
  }

  private ownership({ key, token }: LeaseRef): 'own' | 'gone' | 'foreign' {
    const holder = this.tokens.get(key);
    if (holder === undefined) return 'gone';
    return holder === token ? 'own' : 'foreign';
  }

  private setFence(key: string, reserved: number, ttlMs: number): void {
    this.fences.set(key, reserved, fenceLifeMs(ttlMs));
  }

  private state(key: string): LockState | null {
    const token = this.tokens.get(key);
    if (token === undefined) return null;
    const reserved = this.fences.get(key);
    return {
      key,
      token,
      ...(reserved === undefined ? {} : { fencingToken: reserved - FENCE_BLOCK + 1 }),
      remainingMs: this.tokens.remainingMs(key),
      waitingProcesses: this.queues.get(key)?.size ?? 0,
    };
  }
}
