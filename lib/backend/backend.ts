import type { QuotaStore } from './quota-store.js';

export type * from './quota-store.js';

/**
 * What a store must be able to do. Every operation is one atomic step of the store; waiting, retrying,
 * validity and renewal are built on top (`lock/`, `idempotency/`, `quota/`).
 *
 * Rules for every implementation:
 * - An operation rejects with a `StoreUnavailableError` and nothing else. `outcome: 'unknown'` says that its
 *   answer never came (time-out, closed connection) and that it may still be applied; `'notApplied'` that it
 *   surely was and will not be. `retryable: false` says that trying again is useless (wrong type, no
 *   permission, out of memory).
 * - Each call ends within its `timeoutMs`. A store that is not connected rejects at once; `whenReady` waits.
 * - Keys arrive with the module's prefix; a client's own prefix is the store's affair.
 * - Durations are milliseconds. Amounts and fencing tokens are safe integers.
 */
export interface Backend {
  /** For logs: `redis`, `memory`. */
  readonly kind: string;
  /**
   * The first 23 characters of every token of this instance (`xxxxxxxx-xxxx-8xxx-yxxx`): random, and never
   * shared by two instances, package copies or worker threads.
   */
  readonly tokenPrefix: string;
  readonly locks: LockStore;
  readonly idempotency: IdempotencyStore;
  readonly quotas: QuotaStore;

  /**
   * Opens the connections and checks once that the store can do its work. Resolves when it was reached.
   * Rejects with a `StoreUnavailableError` when it could not be within `timeoutMs` (it goes on trying in the
   * background), and with a `LockConfigError` when it can never serve.
   */
  start(timeoutMs: number): Promise<void>;
  /** Resolves once the store can be asked; rejects with a `StoreUnavailableError` after `timeoutMs`. */
  whenReady(timeoutMs: number): Promise<void>;
  /** Ends clean-ups still running, closes its own connections (never the application's). Never rejects. */
  close(): Promise<void>;
}

/** A key and the token that stands, or shall stand, under it. */
export interface LeaseRef {
  key: string;
  token: string;
}

export interface AcquireRequest extends LeaseRef {
  /** How long the key shall live. */
  leaseMs: number;
  /** The lock's ttl: companions live max(10 min, 10 × ttl) after their last use. */
  ttlMs: number;
  /**
   * Whether this process stands in the store's queue when the key is held. Only once its inbox listens: an
   * entry whose inbox hears nothing is skipped.
   */
  queue: boolean;
}

/** The store's own clock, in microseconds. */
export type StoreTime = number;

/** A grant reserves a block of fencing tokens: the first, and those that follow it. */
export const FENCE_BLOCK = 64;

/** How long a lease lasts that was passed on to a waiter: the short lease is the test whether it lives. */
export const PASSED_ON_LEASE_MS = 1_500;

export interface Granted {
  status: 'granted';
  /**
   * The first of a block of {@link FENCE_BLOCK} that is now reserved, strictly greater than any earlier
   * holder's.
   */
  fencingToken: number;
  time: StoreTime;
}

export type AcquireReply =
  | Granted
  | {
      status: 'busy';
      /** The key that is held: the request's, or the first held one of several. */
      key: string;
      /** What is left of the holder's lease; -1 when its key has no expiry. */
      remainingMs: number;
      time: StoreTime;
    };

/** Gives a lock back and, where this process has more who wait, stands in line again. */
export interface GiveWayRequest extends LeaseRef {
  /** The token that this process's next lease will have. */
  next: string;
  leaseMs: number;
  ttlMs: number;
}

/**
 * `released`: passed on to a waiting process, and `next` stands in the queue behind the others. `kept`: nobody
 * else waits, and the key is ours under `next`, with a full lease and a new block of fencing tokens.
 */
export type GiveWayReply =
  | { status: 'released'; time: StoreTime }
  | { status: 'kept'; fencingToken: number; time: StoreTime }
  | { status: 'gone' }
  | { status: 'foreign' };

/** What this process is told when a lock is passed on to it. */
export interface InboxGrant extends LeaseRef {
  fencingToken: number;
  /** When the store passed it on: its provisional lease of {@link PASSED_ON_LEASE_MS} began then. */
  time: StoreTime;
}

/** Where this process hears that a lock was passed on to it. Opened at the first contention. */
export interface Inbox {
  /** `closed`: not opened yet, or connecting. `forbidden`: this user may not subscribe. */
  readonly state: 'closed' | 'listening' | 'forbidden';
  /** Opens it, if it is not open yet. Resolves once it listens or is forbidden, and after `timeoutMs` anyway. */
  open(timeoutMs: number): Promise<void>;
  /** Called for each grant that is heard, outside every call chain. A message is a hint: it may come late, twice or never. */
  onGrant(listener: (grant: InboxGrant) => void): void;
  /** Called when an operator took a key from a token of this process ({@link LockStore.forceRelease}). */
  onForceRelease(listener: (lease: LeaseRef) => void): void;
  /** Called after every (re)subscription: what was said meanwhile was missed. */
  onListening(listener: () => void): void;
}

export interface ExtendRequest extends LeaseRef {
  leaseMs: number;
  ttlMs: number;
}

/** `gone`: no such key any more. `foreign`: somebody else's token stands there. */
export type ExtendReply = 'extended' | 'gone' | 'foreign';
export type ReleaseReply = 'released' | 'gone' | 'foreign';

export interface LockState extends LeaseRef {
  fencingToken?: number;
  remainingMs: number;
  waitingProcesses: number;
}

export interface LockStore {
  /** Grants made to this instance while it waits are heard here. */
  readonly inbox: Inbox;
  /** Another number after every command connection that closed: clocks compared before it count no more. */
  readonly epoch: number;
  /**
   * Takes a key that is free and that nobody waits for. A free key that others wait for is passed to the first
   * of them (which may be this token). A key that already holds *this* token is granted again, its life raised
   * to `leaseMs` (never lowered) and with a new block of fencing tokens: a resent command must not see its
   * earlier self as a stranger, and a lease that was passed on is taken up this way too. Else busy, and with
   * `queue` this token stands in the queue.
   */
  acquire(request: AcquireRequest, timeoutMs: number): Promise<AcquireReply>;
  /** Whether {@link acquireAll} can take these keys in one step (one server, or one slot of a Cluster). */
  canAcquireTogether(keys: readonly string[]): boolean;
  /**
   * Takes all of several keys or none, in one step. The fencing token is the largest, and every key's counter
   * is raised to it.
   */
  acquireAll(requests: readonly Omit<AcquireRequest, 'queue'>[], timeoutMs: number): Promise<AcquireReply>;
  /** Raises (never lowers) the fencing counters of these keys. */
  raiseFence(
    requests: ReadonlyArray<{ key: string; fencingToken: number; ttlMs: number }>,
    timeoutMs: number,
  ): Promise<void>;
  /**
   * Compare-and-expire, for many at once: never creates a key, never touches a stranger's, never shortens a
   * life. One promise for each request, in order, so that a slow node delays only its own.
   */
  extend(requests: readonly ExtendRequest[], timeoutMs: number): Array<Promise<ExtendReply>>;
  /**
   * Compare-and-delete, and pass on to the first who waits in the store's queue. With `keepMs` above 0
   * compare-and-expire instead: the key stays that much longer, then goes (`minHold`).
   */
  release(request: LeaseRef & { keepMs: number; ttlMs: number }, timeoutMs: number): Promise<ReleaseReply>;
  /** As `release`, for a process that has more who wait. A resend finds `next` under the key: kept. */
  giveWay(request: GiveWayRequest, timeoutMs: number): Promise<GiveWayReply>;
  /**
   * Makes sure, in the background, that a token holds nothing and stands in no queue; what was passed on to it
   * is passed on to the next. For a token whose process waits no more, and one with an unanswered try: on the connection that
   * carried the try when that still lives (order puts it behind the try), else every second for one lease.
   * The token is never used again. Resolves when that is done; never rejects.
   */
  abandon(request: LeaseRef & { leaseMs: number; ttlMs: number }): Promise<void>;
  inspect(key: string, timeoutMs: number): Promise<LockState | null>;
  /** The held locks whose key begins with `prefix` and, behind it, matches the glob `pattern`. */
  list(prefix: string, pattern: string, timeoutMs: number): AsyncIterable<LockState>;
  /** Takes the key from whoever holds it, tells its inbox, and passes it on. False when it was free. */
  forceRelease(key: string, timeoutMs: number): Promise<boolean>;
}

export interface BeginRequest {
  recordKey: string;
  /** Who begins: a UUID per run. */
  owner: string;
  leaseMs: number;
  ttlMs: number;
  /** Null: not compared. */
  fingerprint: string | null;
}

export type BeginReply =
  | { status: 'new'; attempt: number }
  | { status: 'takeover'; attempt: number }
  | { status: 'replay'; attempt: number; payload: Buffer }
  | { status: 'busy'; attempt: number; leaseMs: number }
  | { status: 'mismatch' };

/** An owner that speaks of its own run; enough of the record to write it again should it be gone. */
export interface OwnerRequest {
  recordKey: string;
  owner: string;
  attempt: number;
  fingerprint: string | null;
  ttlMs: number;
}

/** `recreated`: the record was gone (eviction) and was written again. `lost`: another owner's now. */
export type RenewReply = 'ok' | 'lost' | 'recreated';

export type CompleteReply =
  | { status: 'ok' }
  /** This owner completed it before. */
  | { status: 'duplicate' }
  /** The record was gone and was written again. */
  | { status: 'recreated' }
  /** Another owner runs. */
  | { status: 'lost' }
  /** Another owner finished: its stored reply. */
  | { status: 'lostDone'; payload: Buffer };

export interface RecordState {
  recordKey: string;
  state: 'pending' | 'done';
  attempt: number;
  /** What is left of the owner's lease; 0 when it ran out or the record is done. */
  leaseMs: number;
  /** Present when done. */
  payload?: Buffer;
}

export interface IdempotencyStore {
  /**
   * absent -> new; another fingerprint -> mismatch (also while pending); done -> replay; the same owner -> new,
   * with a fresh lease (a resend); lease left -> busy; else takeover with attempt + 1. A damaged record counts
   * as done, with an empty payload. The lease is kept as a field by the store's clock; the record's own life
   * is at least `ttlMs`.
   */
  begin(request: BeginRequest, timeoutMs: number): Promise<BeginReply>;
  renew(request: OwnerRequest & { leaseMs: number }, timeoutMs: number): Promise<RenewReply>;
  complete(request: OwnerRequest & { payload: Buffer }, timeoutMs: number): Promise<CompleteReply>;
  /** The owner's run failed: the record goes, and a retry begins as new. */
  release(request: { recordKey: string; owner: string }, timeoutMs: number): Promise<'ok' | 'lost' | 'gone'>;
  /**
   * Gives up a begin whose answer never came: the lease ends now and the attempt is taken back (the record goes
   * when it was the first); the owner is cleared, so a resent abandon does nothing. Retried in the background
   * until answered (order behind a begin still under way is the store's affair); resolves then, never rejects.
   */
  abandon(request: { recordKey: string; owner: string; ttlMs: number }): Promise<void>;
  inspect(recordKey: string, timeoutMs: number): Promise<RecordState | null>;
  /** Deletes the record. False when there was none. */
  forget(recordKey: string, timeoutMs: number): Promise<boolean>;
}
