import type { Duration } from '../duration.js';

/** The public types of a lock: what a caller holds, is told, and may look up. */

/**
 * A held lock. It is an `AsyncDisposable`: `await using lock = await locks.acquire('lock:order:1')`.
 *
 * A lock reduces conflicts; it is never the only reason that data is right. Use {@link fencingToken} or a
 * database constraint as the floor.
 */
export interface Lock extends AsyncDisposable {
  /** The keys, without duplicates, sorted. */
  readonly keys: readonly string[];
  /** The UUID that stands in the store: one per grant; with several keys, the first key's. */
  readonly token: string;
  /** Strictly greater than any earlier holder's of the same key; a safe integer. */
  readonly fencingToken: number;
  /** Aborts, with a `LockLostError` as its reason, no later than the end of validity. */
  readonly signal: AbortSignal;
  /** The validity left by the local clocks, in milliseconds; 0 when not held. */
  readonly remainingMs: number;
  /** Whether it is held at this moment, by the clocks, not by a timer. */
  readonly held: boolean;
  /**
   * Cheap: call it before every external write.
   * @throws LockLostError when it is not held any more.
   */
  assertHeld(): void;
  /** Runs `fn` in a call chain under this lock: `current()` finds it and nested holds join it. */
  run<T>(fn: () => T): T;
  /**
   * Makes the lock last at least `ttl` from now. Renewals that follow use the lock's own ttl again.
   * @param ttl default: the lock's ttl; at least 100 ms.
   * @throws LockLostError when it is not ours any more.
   */
  extend(ttl?: Duration): Promise<void>;
  /** Gives it back. May be called again; never throws because the lease had run out. */
  release(): Promise<'released' | 'lost'>;
}

/** A lock as the store shows it. */
export interface LockInfo {
  key: string;
  /** The holder's token. */
  token: string;
  /** The highest fencing token handed out, if the store still knows it. */
  fencingToken?: number;
  /** What is left of the lease; -1 when the key has no expiry (not written by this module). */
  remainingMs: number;
  /** How many processes stand in the queue. */
  waitingProcesses: number;
}

/** What happens to locks, for metrics and logs. Contention is an event, not an error. */
export interface LockEvent {
  type: 'acquired' | 'contended' | 'released' | 'lost' | 'extendFailed' | 'unavailable';
  key: string;
  token?: string;
  fencingToken?: number;
  /** How long the caller waited, in milliseconds. */
  waitedMs?: number;
  /** How long it was held, in milliseconds. */
  heldMs?: number;
  error?: Error;
}

export interface LockOptions {
  /**
   * The lease in the store. Rule of thumb: twice the P99 of the section. At least 100 ms.
   * @default '30s'
   */
  ttl?: Duration;
  /**
   * Bounds everything until granted; 0 is one try.
   * @default '5s'
   */
  waitTimeout?: Duration;
  /**
   * Renews the lease every ttl/3 while held.
   * @default true
   */
  autoExtend?: boolean;
  /**
   * After this long the signal aborts and renewal stops; the key goes with its lease. `Infinity` by explicit
   * choice.
   * @default '10m'
   */
  maxHold?: Duration;
  /**
   * The key stays at least this long from its grant, whatever happens: for a cron job on several hosts.
   * @default 0
   */
  minHold?: Duration;
  /**
   * The same call chain may take the same key again.
   * @default true
   */
  reentrant?: boolean;
  /**
   * Bounded hand-off inside the process, without asking the store.
   * @default true
   */
  handoff?: boolean;
  /** Not built yet: refused with a `LockConfigError`. */
  replicas?: number;
  /**
   * What `withLock` and the decorator do when the lock was lost while the task ran: `'throw'` a `LockLostError`
   * that carries the task's outcome, or `'report'` it as an event and let the outcome through.
   * @default 'throw'
   */
  onLost?: 'throw' | 'report';
  /** Cancels the waiting. */
  signal?: AbortSignal;
}
