import type { Backend, CompleteReply, OwnerRequest } from '../backend/backend.js';
import { withRetries } from '../backend/retry.js';
import { StoreUnavailableError, type LockLostReason } from '../errors.js';
import type { Clock, Instant } from '../lock/validity.js';
import { outsideCallChain } from '../outside-call-chain.js';
import type { IdempotencyEvents } from './idempotency-events.js';
import { LeaseRenewal } from './lease-renewal.js';
import type { Redacted } from './before-store.js';
import { completeRecord } from './record-completion.js';
import { packWithin, type RecordPayload } from './record-payload.js';
import type { RunWatchdog } from './run-watchdog.js';
import type { ReplayableReply, StoredReply } from './stored-reply.js';

/** How long a caller waits for the release of its record. */
const RELEASE_FOREGROUND_MS = 1_000;

export interface OwnedRunSettings {
  backend: Backend;
  events: IdempotencyEvents;
  clock: Clock;
  watchdog: RunWatchdog;
  /** Its `ttlMs` is how long the record lives while it is pending. */
  request: OwnerRequest;
  payloads: RecordPayload;
  /** How long the finished record lives. */
  ttlMs: number;
  leaseMs: number;
  /** How long a completion is tried for in the background. */
  completeWithinMs: number;
  begunAt: Instant;
  /** A begin of this owner was never answered: it may still be applied. */
  doubtful: boolean;
  /** The record may have changed for others. */
  onEnd(run: OwnedRun): void;
}

type State = 'running' | 'ending' | 'ended';

/**
 * A record that this process owns while its run lasts: renewed from the begin on, ended exactly once by
 * {@link complete}, {@link release} or {@link hold}.
 */
export class OwnedRun {
  readonly #settings: OwnedRunSettings;
  readonly #renewal: LeaseRenewal;
  /** Ends what still goes on when the module shuts down. */
  readonly #cut = new AbortController();
  #state: State = 'running';
  /** Why the reply itself was not kept. */
  #notKept: Error | undefined;

  constructor(settings: OwnedRunSettings) {
    this.#settings = settings;
    const { backend, request, leaseMs, begunAt, clock, watchdog, events } = settings;
    this.#renewal = new LeaseRenewal({
      store: backend.idempotency,
      request,
      leaseMs,
      begunAt,
      clock,
      watchdog,
      onLost: (error) =>
        events.emit({ type: 'lost', recordKey: request.recordKey, attempt: request.attempt, error }),
    });
  }

  get recordKey(): string {
    return this.#settings.request.recordKey;
  }

  /** 1 is the first run; more means that an earlier one died or was held. */
  get attempt(): number {
    return this.#settings.request.attempt;
  }

  /** Aborts, with a `LockLostError` as its reason, when the lease is lost or can be believed no longer. */
  get signal(): AbortSignal {
    return this.#renewal.signal;
  }

  /**
   * Writes the reply into the record. After a second without success it goes on in the background, the lease
   * renewed, and the caller gets its answer.
   *
   * @param redact what is kept instead of the reply.
   * @returns the reply of another owner that finished first, when there is one: it is the stored one.
   */
  async complete(
    reply: StoredReply,
    redact?: (reply: StoredReply) => Promise<Redacted>,
  ): Promise<ReplayableReply | undefined> {
    if (!this.#leave()) return undefined;
    this.#renewal.leaveLossToCompletion();
    const { backend, request, ttlMs, payloads, completeWithinMs } = this.#settings;
    const { soon, finished } = completeRecord({
      backend,
      request: { ...request, ttlMs },
      payload: this.#payload(reply, redact),
      signal: this.#cut.signal,
      backgroundMs: completeWithinMs,
    });
    const end = (): void => this.#end();
    finished
      .then(
        (answer) => this.#completed(answer),
        (error: Error) => this.#failed(error),
      )
      .then(end, end);
    const answer = await soon;
    if (answer === undefined) {
      this.#failed(
        new StoreUnavailableError('The reply is not stored yet: it is tried on in the background.'),
      );
    }
    if (answer?.status !== 'lostDone') return undefined;
    // a winner whose reply cannot be replayed leaves us ours
    return (await payloads.unpack(answer.payload)).reply ?? undefined;
  }

  #payload(
    reply: StoredReply,
    redact: ((reply: StoredReply) => Promise<Redacted>) | undefined,
  ): Buffer | Promise<Buffer> {
    const packed = packWithin(this.#settings.payloads, reply, redact);
    if (!(packed instanceof Promise)) return packed.payload;
    return packed.then(({ payload, error }) => {
      this.#notKept = error;
      return payload;
    });
  }

  /**
   * Frees the key: a retry runs as new. Renewal is over before it is sent, and what was never answered is
   * abandoned behind it, so that nothing late brings the record back.
   */
  async release(): Promise<void> {
    if (!this.#leave()) return;
    const released = outsideCallChain(() => this.#release()).finally(() => this.#end());
    await Promise.race([released, pause(RELEASE_FOREGROUND_MS)]);
  }

  /** Leaves the record pending until its lease ends; the run after that is the next attempt. */
  hold(): void {
    if (!this.#leave()) return;
    void this.#renewal.stop().then(() => this.#end());
  }

  /** The module shuts down: the signal aborts and nothing is sent any more; the lease ends by itself. */
  cut(reason: LockLostReason): void {
    if (this.#state === 'ended') return;
    this.#cut.abort();
    this.#renewal.lose(reason);
    void this.#renewal.stop();
  }

  #leave(): boolean {
    if (this.#state !== 'running') return false;
    this.#state = 'ending';
    return true;
  }

  #end(): void {
    this.#state = 'ended';
    void this.#renewal.stop();
    this.#settings.onEnd(this);
  }

  #completed(answer: CompleteReply): void {
    const { events } = this.#settings;
    const lost = answer.status === 'lost' || answer.status === 'lostDone';
    const error = this.#notKept;
    if (!lost) events.emit({ type: 'completed', ...this.#about(), ...(error && { error }) });
    // emits the event, once
    else this.#renewal.lose('taken');
  }

  async #release(): Promise<void> {
    const { backend, request, leaseMs, doubtful } = this.#settings;
    const { recordKey, owner, ttlMs } = request;
    await this.#renewal.stop();
    try {
      const answer = await withRetries(
        backend,
        { budgetMs: leaseMs, tryMs: RELEASE_FOREGROUND_MS / 2, signal: this.#cut.signal },
        (timeoutMs) => backend.idempotency.release({ recordKey, owner }, timeoutMs),
      );
      if (answer === 'lost') this.#renewal.lose('taken');
    } catch (error) {
      // the lease ends it: the next run is the next attempt
      this.#failed(error as Error);
    }
    if (doubtful || this.#renewal.unanswered) void backend.idempotency.abandon({ recordKey, owner, ttlMs });
  }

  #failed(error: Error): void {
    if (this.#cut.signal.aborted) return;
    this.#settings.events.emit({ type: 'storeDown', ...this.#about(), error });
  }

  #about(): { recordKey: string; attempt: number } {
    return { recordKey: this.recordKey, attempt: this.attempt };
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    outsideCallChain(() => setTimeout(resolve, ms)).unref();
  });
}
