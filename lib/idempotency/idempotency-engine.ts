import type { Observable } from 'rxjs';
import type { Backend, BeginReply, RecordState } from '../backend/backend.js';
import { withRetries } from '../backend/retry.js';
import {
  IdempotencyInProgressError,
  IdempotencyKeyError,
  IdempotencyMismatchError,
  isRedisLockError,
  LockClosedError,
} from '../errors.js';
import { systemClock, type Clock } from '../lock/validity.js';
import { outsideCallChain } from '../outside-call-chain.js';
import { Beginning, type BeginCall } from './beginning.js';
import { IdempotencyEvents } from './idempotency-events.js';
import type { IdempotencyCounters, IdempotencyEvent, IdempotencyRecordInfo } from './idempotency.js';
import { OwnedRun } from './owned-run.js';
import { isReplayable } from './record-codec.js';
import { isRecordKey, keyRecord } from './record-key.js';
import { RecordPayload } from './record-payload.js';
import { RecordWaiting } from './record-waiting.js';
import { RunWatchdog } from './run-watchdog.js';
import type { ReplayableReply } from './stored-reply.js';
import type { WaitRequest } from './waiting-room.js';

/** Bounds a begin, and an operator's look-up, with all their tries. */
const BUDGET_MS = 2_000;
const TRY_MS = 1_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface EngineSettings {
  backend: Backend;
  /** @default '' */
  keyPrefix?: string;
  /** @default the system's clocks */
  clock?: Clock;
  /** How long a completion is tried for in the background, in milliseconds. @default 600000 */
  completeWithinMs?: number;
}

/** `replay` without a reply: done before, but the reply could not be kept or cannot be read. */
export type Begun =
  | { kind: 'run'; run: OwnedRun }
  | { kind: 'replay'; attempt: number; reply: ReplayableReply | null; error?: Error }
  | { kind: 'bypass' };

/**
 * The state machine of idempotency: who may run, who gets the stored reply, who is refused. What is around it
 * (HTTP, queues, plain methods) only differs in how a reply is stored and given again.
 */
export class IdempotencyEngine {
  readonly keyPrefix: string;
  readonly #backend: Backend;
  readonly #clock: Clock;
  readonly #events = new IdempotencyEvents();
  readonly #waiting: RecordWaiting;
  readonly #watchdog: RunWatchdog;
  readonly #completeWithinMs: number;
  readonly #runs = new Set<OwnedRun>();
  #closed = false;
  #onIdle: (() => void) | undefined;

  constructor({ backend, keyPrefix = '', clock = systemClock, completeWithinMs = 600_000 }: EngineSettings) {
    this.#completeWithinMs = completeWithinMs;
    this.#backend = backend;
    this.keyPrefix = keyPrefix;
    this.#clock = clock;
    this.#watchdog = new RunWatchdog(clock);
    this.#waiting = new RecordWaiting(backend.idempotency, backend.locks.inbox, clock);
  }

  /** What happens to records, for metrics and logs. */
  get events(): Observable<IdempotencyEvent> {
    return this.#events.stream;
  }

  /**
   * Begins a run, or tells what is there instead.
   *
   * @throws IdempotencyInProgressError the first one still runs (after `waitTimeoutMs`, when it may wait).
   * @throws IdempotencyMismatchError another request under the same key.
   * @throws StoreUnavailableError the store was not reached in 2 s; nothing was begun.
   * @throws LockClosedError the module shuts down.
   */
  async begin(call: BeginCall): Promise<Begun> {
    if (this.#closed) throw new LockClosedError([call.recordKey]);
    const beginning = new Beginning(this.#backend, this.#clock, call);
    const waits = call.onConcurrent === 'wait' && call.waitTimeoutMs > 0 ? this.#waits(beginning) : undefined;
    let reply = waits && (await this.#waiting.join(waits));
    if (!reply) {
      try {
        reply = await this.#ask(beginning, BUDGET_MS, false);
      } catch (error) {
        if (call.onStoreDown === 'bypass' && isRedisLockError(error, 'STORE_UNAVAILABLE'))
          return { kind: 'bypass' };
        throw error;
      }
      if (waits && reply.status === 'busy') reply = await this.#waiting.wait(waits, reply);
    }
    return this.#begun(beginning, reply);
  }

  /** Looks a record up, by its record key or by its business key (of a record without a scope). */
  async inspect(keyOrRecordKey: string): Promise<IdempotencyRecordInfo | null> {
    const recordKey = this.#recordKey(keyOrRecordKey);
    const record = await withRetries(this.#backend, { budgetMs: BUDGET_MS, tryMs: TRY_MS }, (timeoutMs) =>
      this.#backend.idempotency.inspect(recordKey, timeoutMs),
    );
    return record && infoOf(record);
  }

  /**
   * The records of the store, by SCAN (never KEYS), a few at a time.
   *
   * @param pattern a glob on what stands behind `idem:` in the record key.
   */
  async *list(pattern = '*'): AsyncIterable<IdempotencyRecordInfo> {
    const { keyPrefix } = this;
    const records = this.#backend.idempotency.list(`${keyPrefix}idem:`, pattern, BUDGET_MS);
    for await (const record of records) if (isRecordKey(keyPrefix, record.recordKey)) yield infoOf(record);
  }

  /** How often each event happened. */
  get counters(): IdempotencyCounters {
    return this.#events.counters;
  }

  /** Deletes a record, so that the next request runs; false when there was none. For operators. */
  async forget(keyOrRecordKey: string): Promise<boolean> {
    const recordKey = this.#recordKey(keyOrRecordKey);
    const forgotten = await withRetries(this.#backend, { budgetMs: BUDGET_MS, tryMs: TRY_MS }, (timeoutMs) =>
      this.#backend.idempotency.forget(recordKey, timeoutMs),
    );
    this.#waiting.wake(recordKey);
    return forgotten;
  }

  /**
   * Refuses new runs, waits at most `timeoutMs` for the runs and the completions that go on, then ends them:
   * their leases run out by themselves.
   */
  async close(timeoutMs: number): Promise<void> {
    this.#closed = true;
    this.#waiting.close(new LockClosedError());
    if (this.#runs.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = outsideCallChain(() => setTimeout(resolve, Math.min(timeoutMs, LONGEST_TIMER_MS)));
        timer.unref();
        this.#onIdle = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      for (const run of this.#runs) run.cut('shutdown');
      this.#runs.clear();
    }
    this.#events.complete();
  }

  #waits(beginning: Beginning): WaitRequest {
    const { recordKey, fingerprint, waitTimeoutMs } = beginning.call;
    return {
      recordKey,
      fingerprint,
      until: this.#clock.monotonic() + waitTimeoutMs,
      ask: (budgetMs, queue) => this.#ask(beginning, Math.min(budgetMs, BUDGET_MS), queue),
    };
  }

  async #ask(beginning: Beginning, budgetMs: number, queue: boolean): Promise<BeginReply> {
    const { recordKey } = beginning.call;
    let reply: BeginReply;
    try {
      reply = await beginning.ask(budgetMs, queue);
    } catch (error) {
      if (isRedisLockError(error, 'STORE_UNAVAILABLE'))
        this.#events.emit({ type: 'storeDown', recordKey, error });
      throw error;
    }
    if (!this.#closed) return reply;
    if (reply.status === 'new' || reply.status === 'takeover') beginning.abandon();
    throw new LockClosedError([recordKey]);
  }

  async #begun(beginning: Beginning, reply: BeginReply): Promise<Begun> {
    const { recordKey, fingerprint, leaseMs, codec } = beginning.call;
    const events = this.#events;
    const runs = reply.status === 'new' || reply.status === 'takeover';
    if (!runs && beginning.unanswered) beginning.abandon();
    switch (reply.status) {
      case 'new':
      case 'takeover': {
        const { attempt } = reply;
        events.emit({ type: reply.status === 'new' ? 'started' : 'takeover', recordKey, attempt });
        const run = new OwnedRun({
          backend: this.#backend,
          events,
          clock: this.#clock,
          watchdog: this.#watchdog,
          request: { recordKey, owner: beginning.owner, attempt, fingerprint, ttlMs: beginning.pendingMs },
          ttlMs: beginning.call.ttlMs,
          payloads: new RecordPayload(recordKey, codec),
          leaseMs,
          completeWithinMs: this.#completeWithinMs,
          begunAt: beginning.sentAt,
          doubtful: beginning.unanswered,
          onEnd: (ended) => this.#ended(ended),
        });
        this.#runs.add(run);
        return { kind: 'run', run };
      }
      case 'replay': {
        const { attempt } = reply;
        const unpacked = await new RecordPayload(recordKey, codec).unpack(reply.payload);
        const { error } = unpacked;
        events.emit({ type: 'replayed', recordKey, attempt, ...(error && { error }) });
        return { kind: 'replay', attempt, ...unpacked };
      }
      case 'busy':
        events.emit({ type: 'inProgress', recordKey, attempt: reply.attempt });
        throw new IdempotencyInProgressError(recordKey, reply.leaseMs);
      case 'mismatch':
        events.emit({ type: 'mismatch', recordKey });
        throw new IdempotencyMismatchError(recordKey);
    }
  }

  #ended(run: OwnedRun): void {
    this.#runs.delete(run);
    this.#waiting.wake(run.recordKey);
    if (this.#runs.size === 0) this.#onIdle?.();
  }

  #recordKey(keyOrRecordKey: string): string {
    if (typeof keyOrRecordKey !== 'string' || keyOrRecordKey === '') {
      throw new IdempotencyKeyError('An idempotency key is a non-empty string.');
    }
    return isRecordKey(this.keyPrefix, keyOrRecordKey)
      ? keyOrRecordKey
      : keyRecord(this.keyPrefix, { key: keyOrRecordKey });
  }
}

function infoOf({ recordKey, state, attempt, leaseMs, payload }: RecordState): IdempotencyRecordInfo {
  return { recordKey, state, attempt, leaseMs, replayable: payload !== undefined && isReplayable(payload) };
}
