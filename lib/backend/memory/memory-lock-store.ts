import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LeaseRef,
  LockState,
  LockStore,
  ReleaseReply,
} from '../backend.js';
import { ExpiringMap } from './expiring-map.js';
import { compileGlob } from './glob.js';

/** How long a fencing counter lives after its last use, as the protocol has it. */
const fenceLifeMs = (ttlMs: number): number => Math.max(600_000, 10 * ttlMs);

/** Locks of one process. Nothing waits inside an operation, so each is one step for everybody else. */
export class MemoryLockStore implements LockStore {
  private readonly tokens: ExpiringMap<string>;
  private readonly fences: ExpiringMap<number>;

  constructor(
    private readonly clock: () => number,
    private readonly assertOpen: () => void,
  ) {
    this.tokens = new ExpiringMap(clock);
    this.fences = new ExpiringMap(clock);
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    this.assertOpen();
    return this.take([request]);
  }

  canAcquireTogether(): boolean {
    return true;
  }

  async acquireAll(requests: readonly AcquireRequest[]): Promise<AcquireReply> {
    this.assertOpen();
    return this.take(requests);
  }

  async raiseFence(
    requests: ReadonlyArray<{ key: string; fencingToken: number; ttlMs: number }>,
  ): Promise<void> {
    this.assertOpen();
    for (const { key, fencingToken, ttlMs } of requests) {
      this.setFence(key, Math.max(fencingToken, this.fences.get(key) ?? 0), ttlMs);
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

  async release({ key, token, keepMs }: LeaseRef & { keepMs: number }): Promise<ReleaseReply> {
    this.assertOpen();
    const owned = this.ownership({ key, token });
    if (owned !== 'own') return owned;
    if (keepMs > 0) this.tokens.expire(key, keepMs);
    else this.tokens.delete(key);
    return 'released';
  }

  async abandon({ key, token }: LeaseRef): Promise<void> {
    if (this.ownership({ key, token }) === 'own') this.tokens.delete(key);
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
    return this.tokens.delete(key);
  }

  /** Drops what has ended. */
  sweep(): void {
    this.tokens.sweep();
    this.fences.sweep();
  }

  /** Entries in memory, for tests of growth. */
  get size(): number {
    return this.tokens.size + this.fences.size;
  }

  private take(requests: readonly AcquireRequest[]): AcquireReply {
    for (const request of requests) {
      if (this.ownership(request) === 'foreign') {
        return { status: 'busy', key: request.key, remainingMs: this.tokens.remainingMs(request.key) };
      }
    }
    // Microseconds of the clock, so that the number grows even where the counter has been forgotten.
    let fencingToken = Math.floor(this.clock() * 1000);
    for (const { key } of requests) fencingToken = Math.max(fencingToken, (this.fences.get(key) ?? 0) + 1);
    for (const { key, token, leaseMs, ttlMs } of requests) {
      if (this.tokens.get(key) === token) this.tokens.prolong(key, leaseMs);
      else this.tokens.set(key, token, leaseMs);
      this.setFence(key, fencingToken, ttlMs);
    }
    return { status: 'granted', fencingToken };
  }

  private ownership({ key, token }: LeaseRef): 'own' | 'gone' | 'foreign' {
    const holder = this.tokens.get(key);
    if (holder === undefined) return 'gone';
    return holder === token ? 'own' : 'foreign';
  }

  private setFence(key: string, fencingToken: number, ttlMs: number): void {
    this.fences.set(key, fencingToken, fenceLifeMs(ttlMs));
  }

  private state(key: string): LockState | null {
    const token = this.tokens.get(key);
    if (token === undefined) return null;
    const fencingToken = this.fences.get(key);
    return {
      key,
      token,
      ...(fencingToken === undefined ? {} : { fencingToken }),
      remainingMs: this.tokens.remainingMs(key),
      waitingProcesses: 0,
    };
  }
}
