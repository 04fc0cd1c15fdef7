import { randomUUID } from 'node:crypto';
import type { Backend, BeginReply } from '../backend/backend.js';
import { withRetries } from '../backend/retry.js';
import { isRedisLockError, type StoreUnavailableError } from '../errors.js';
import type { IdempotencyCodec } from './idempotency.js';
import { instant, type Clock, type Instant } from '../lock/validity.js';

const TRY_MS = 1_000;

/** What a run is begun with. */
export interface BeginCall {
  recordKey: string;
  /** Null: not compared. */
  fingerprint: string | null;
  ttlMs: number;
  leaseMs: number;
  onConcurrent: 'reject' | 'wait';
  waitTimeoutMs: number;
  onStoreDown: 'reject' | 'bypass';
  codec?: IdempotencyCodec;
}

/** One caller's tries to begin, all under one owner: a resent begin is known again. */
export class Beginning {
  #owner = randomUUID();
  #sentAt: Instant;
  #unanswered = false;

  constructor(
    private readonly backend: Backend,
    private readonly clock: Clock,
    readonly call: BeginCall,
  ) {
    this.#sentAt = instant(clock);
  }

  get owner(): string {
    return this.#owner;
  }

  /** Before the send of the try that was answered. */
  get sentAt(): Instant {
    return this.#sentAt;
  }

  /** Whether any try of this owner was never answered. */
  get unanswered(): boolean {
    return this.#unanswered;
  }

  /** How long a pending record stays: the attempts and the fingerprint must survive the lease of a dead owner. */
  get pendingMs(): number {
    return Math.max(this.call.ttlMs, 2 * this.call.leaseMs);
  }

  /** @param queue whether this process is to be told when a busy record ends. */
  async ask(budgetMs: number, queue: boolean): Promise<BeginReply> {
    try {
      return await withRetries(this.backend, { budgetMs, tryMs: TRY_MS }, (timeoutMs) =>
        this.#try(timeoutMs, queue),
      );
    } catch (error) {
      // nobody shall meet a 409 from an owner that does not exist
      if (this.#unanswered) this.abandon();
      throw error;
    }
  }

  /** Gives up whatever was begun. Whoever asks again is another owner: the clean-up may go on for a while. */
  abandon(): void {
    const { recordKey } = this.call;
    void this.backend.idempotency.abandon({ recordKey, owner: this.#owner, ttlMs: this.pendingMs });
    this.#owner = randomUUID();
    this.#unanswered = false;
  }

  async #try(timeoutMs: number, queue: boolean): Promise<BeginReply> {
    const { recordKey, fingerprint, leaseMs } = this.call;
    const request = { recordKey, owner: this.#owner, leaseMs, fingerprint, ttlMs: this.pendingMs, queue };
    const sentAt = instant(this.clock);
    try {
      const reply = await this.backend.idempotency.begin(request, timeoutMs);
      this.#sentAt = sentAt;
      return reply;
    } catch (error) {
      if (isRedisLockError(error, 'STORE_UNAVAILABLE')) {
        this.#unanswered ||= (error as StoreUnavailableError).outcome === 'unknown';
      }
      throw error;
    }
  }
}
