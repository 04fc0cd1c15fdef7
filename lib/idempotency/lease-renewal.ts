import type { IdempotencyStore, OwnerRequest } from '../backend/backend.js';
import {
  isRedisLockError,
  LockLostError,
  type LockLostReason,
  type StoreUnavailableError,
} from '../errors.js';
import { elapsedSince, instant, validityOf, type Clock, type Instant } from '../lock/validity.js';
import type { RunWatchdog, WatchedLease } from './run-watchdog.js';

const RETRY_AT_MOST_MS = 250;
const TRY_AT_MOST_MS = 1_000;
const TRY_AT_LEAST_MS = 20;

export interface RenewalSettings {
  store: IdempotencyStore;
  request: OwnerRequest;
  leaseMs: number;
  /** Before the send of the begin that was answered: the validity counts from there. */
  begunAt: Instant;
  clock: Clock;
  watchdog: RunWatchdog;
  /** Told once, when the lease is lost or can be believed no longer. */
  onLost(error: LockLostError): void;
}

/**
 * Keeps the lease of one run alive, every third of it, and aborts the run's signal when that fails: at the
 * store's word that the record is another's, or at the end of the lease's validity without any word.
 */
export class LeaseRenewal implements WatchedLease {
  readonly #settings: RenewalSettings;
  #controller: AbortController | undefined;
  #lost: LockLostError | undefined;
  #validSince: Instant;
  /** By the monotonic clock. */
  #renewAt: number;
  #inFlight: Promise<void> | undefined;
  #stopped = false;
  #unanswered = false;
  #completing = false;

  constructor(settings: RenewalSettings) {
    this.#settings = settings;
    this.#validSince = settings.begunAt;
    this.#renewAt = renewalAfter(settings.begunAt.monotonic, settings.leaseMs);
    settings.watchdog.watch(this);
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#lost) this.#controller.abort(this.#lost);
    }
    return this.#controller.signal;
  }

  /** Whether a renewal was never answered: it may still be applied, even after the record was released. */
  get unanswered(): boolean {
    return this.#unanswered;
  }

  /** Ends the renewals. Resolves when none is on its way: only then may a release be sent. */
  async stop(): Promise<void> {
    this.#end();
    await this.#inFlight;
  }

  /**
   * The run is over and its reply is being written, the lease still renewed: what the store says of the lease
   * counts no more, as a renewal that was overtaken by the completion is refused like a lost one.
   */
  leaveLossToCompletion(): void {
    this.#completing = true;
  }

  /** Aborts the run's signal; only the first loss counts. */
  lose(reason: LockLostReason, cause?: unknown): void {
    if (this.#lost) return;
    const { request, begunAt, clock } = this.#settings;
    const error = new LockLostError([request.recordKey], {
      reason,
      token: request.owner,
      fencingToken: request.attempt,
      heldMs: elapsedSince(begunAt, clock),
      ...(cause === undefined ? {} : { cause }),
    });
    this.#lost = error;
    this.#controller?.abort(error);
    this.#settings.onLost(error);
  }

  #end(): void {
    this.#stopped = true;
    this.#settings.watchdog.unwatch(this);
  }

  #validLeftMs(): number {
    const { leaseMs, clock } = this.#settings;
    return validityOf(leaseMs) - elapsedSince(this.#validSince, clock);
  }

  /** The next renewal, or the end of what may be believed. */
  get nextAt(): number {
    const renewal = this.#inFlight ? Infinity : this.#renewAt;
    if (this.#lost || this.#completing) return renewal;
    return Math.min(renewal, this.#settings.clock.monotonic() + this.#validLeftMs());
  }

  tick(): void {
    // less than a timer can wait for: not later than the end
    if (!this.#completing && this.#validLeftMs() < 1) this.lose('expired');
    if (!this.#inFlight && this.#renewAt <= this.#settings.clock.monotonic()) {
      this.#inFlight = this.#renew().finally(() => {
        this.#inFlight = undefined;
        this.#settings.watchdog.moved(this);
      });
    }
  }

  /** Goes on after the signal was aborted: the run cannot be stopped, so nobody else should begin beside it. */
  async #renew(): Promise<void> {
    const { store, request, leaseMs, clock } = this.#settings;
    const sentAt = instant(clock);
    // a try must leave time for another one before the end
    const timeoutMs = Math.min(TRY_AT_MOST_MS, Math.max(TRY_AT_LEAST_MS, leaseMs / 5));
    try {
      const reply = await store.renew({ ...request, leaseMs }, timeoutMs);
      if (this.#stopped) return;
      if (reply === 'lost') {
        this.#end();
        if (!this.#completing) this.lose('taken');
        return;
      }
      this.#validSince = sentAt;
      this.#renewAt = renewalAfter(sentAt.monotonic, leaseMs);
    } catch (error) {
      if (isRedisLockError(error, 'STORE_UNAVAILABLE')) {
        this.#unanswered ||= (error as StoreUnavailableError).outcome === 'unknown';
      }
      this.#renewAt = clock.monotonic() + Math.min(leaseMs / 10, RETRY_AT_MOST_MS);
    }
  }
}

/** A third of the lease after the last renewal was sent, or a little sooner: on a grid, so that many come due together. */
function renewalAfter(sentAt: number, leaseMs: number): number {
  const step = leaseMs / 30;
  return Math.floor(sentAt / step) * step + leaseMs / 3;
}
