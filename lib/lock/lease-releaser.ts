import type { GiveWayReply, LockStore } from '../backend/backend.js';
import type { StoreUnavailableError } from '../errors.js';
import { outsideCallChain } from '../outside-call-chain.js';
import { asFailure } from './store-failure.js';
import { LONGEST_TIMER_MS, within } from './delay.js';
import { leaseMsOf, type Lease, type LeaseTerms } from './lease.js';
import type { Instant } from './validity.js';

const COMMAND_TIMEOUT_MS = 1_000;
/** How long a caller waits for the answer of its release; the retries go on behind its back. */
const ANSWER_WITHIN_MS = 1_000;
const RETRY_PAUSE_MS = 50;

/**
 * `released` the key is free, or was on a retry; `taken` the first answer said that it was not ours any more
 * although its validity ran; `unanswered` not told in time: the retries go on, then the lease ends by itself.
 */
export type LeaseRelease = 'released' | 'taken' | 'unanswered';

/** How a lease was given back by a process that has more who wait: with what the store said of its next token. */
export interface GaveWay {
  release: LeaseRelease;
  /** The answer that counts for `next`; none when it was never given. */
  next?: { reply: GiveWayReply; sentAt: Instant };
  /** A try was never answered: `next` may stand in the queue, or hold the key. */
  doubtful: boolean;
}

/** Gives leases back: compare-and-delete, retried until the validity would have ended. */
export class LeaseReleaser {
  constructor(
    private readonly store: LockStore,
    private readonly whenReady: (timeoutMs: number) => Promise<void>,
    private readonly background: (work: Promise<unknown>) => void,
  ) {}

  /** Gives a lease back that its last hold ended. Never rejects. */
  release(lease: Lease): Promise<LeaseRelease> {
    const startedAt = performance.now();
    // a command's own time-out bounds the first answer: only behind a failed one is a timer needed
    return this.#try(lease, COMMAND_TIMEOUT_MS).then((answer) => {
      if (typeof answer !== 'string' && (answer.retryable || answer.outcome === 'unknown')) {
        const retried = this.#retry(lease);
        this.background(retried);
        return within(retried, Math.max(0, ANSWER_WITHIN_MS - (performance.now() - startedAt)), 'unanswered');
      }
      this.#abandonIfDoubtful(lease);
      if (answer === 'released') return answer;
      return typeof answer === 'string' ? 'taken' : 'unanswered';
    });
  }

  /**
   * Gives a lease back and asks to stand in line again under `next`. Retried with the same tokens, which makes a
   * resend harmless. Never rejects.
   */
  async giveWay(lease: Lease, next: string, terms: LeaseTerms): Promise<GaveWay> {
    const { key, token } = lease;
    const request = { key: key.full, token, next, leaseMs: leaseMsOf(terms), ttlMs: terms.ttlMs };
    let doubtful = false;
    let first = true;
    do {
      const sentAt = lease.now();
      try {
        const timeoutMs = first ? COMMAND_TIMEOUT_MS : Math.min(COMMAND_TIMEOUT_MS, lease.validityLeftMs);
        const reply = await this.store.giveWay(request, Math.max(1, timeoutMs));
        this.#abandonIfDoubtful(lease);
        const isGone = reply.status === 'gone' || reply.status === 'foreign';
        return { release: isGone && first ? 'taken' : 'released', next: { reply, sentAt }, doubtful };
      } catch (error) {
        const failure = asFailure(error, key);
        doubtful ||= failure.outcome === 'unknown';
        if (!failure.retryable && failure.outcome !== 'unknown') break;
      }
      first = false;
      await this.whenReady(Math.min(COMMAND_TIMEOUT_MS, lease.validityLeftMs)).catch(() => undefined);
      await new Promise<void>((resolve) => setTimeout(resolve, RETRY_PAUSE_MS));
    } while (lease.validityLeftMs > 0);
    this.#abandonIfDoubtful(lease);
    return { release: 'unanswered', doubtful };
  }

  /** One try for a lease that is not valid any more: its key may live a little longer than the belief in it. */
  async releaseLost(lease: Lease): Promise<void> {
    await this.#try(lease, COMMAND_TIMEOUT_MS);
    this.#abandonIfDoubtful(lease);
  }

  /** Gives back a grant that nobody came to hold: the key is freed at once, whatever `minHold` says. */
  async releaseUnheld(lease: Lease): Promise<void> {
    const answer = await this.#try(lease, COMMAND_TIMEOUT_MS, 0);
    if (lease.doubtful || typeof answer !== 'string') await this.#abandon(lease);
  }

  async #retry(lease: Lease): Promise<LeaseRelease> {
    let release: LeaseRelease = 'unanswered';
    while (lease.validityLeftMs > 0 && release === 'unanswered') {
      await this.whenReady(Math.min(COMMAND_TIMEOUT_MS, lease.validityLeftMs)).catch(() => undefined);
      const answer = await this.#try(lease, Math.min(COMMAND_TIMEOUT_MS, lease.validityLeftMs));
      // the first one was sent inside validity and may have done it; a waiter may already hold the key
      if (typeof answer === 'string') release = 'released';
      else await new Promise<void>((resolve) => setTimeout(resolve, RETRY_PAUSE_MS).unref());
    }
    this.#abandonIfDoubtful(lease);
    return release;
  }

  #try(
    lease: Lease,
    timeoutMs: number,
    keepMs = lease.minHoldLeftMs,
  ): Promise<'released' | 'gone' | 'foreign' | StoreUnavailableError> {
    const { key, token } = lease;
    const request = { key: key.full, token, keepMs, ttlMs: lease.terms.ttlMs };
    return this.store
      .release(request, Math.max(1, timeoutMs))
      .catch((error: unknown) => asFailure(error, key));
  }

  /** A late copy of an unanswered acquire could still be applied: it must not keep the key. */
  #abandonIfDoubtful(lease: Lease): void {
    if (!lease.doubtful) return;
    const abandon = (): void => this.background(this.#abandon(lease));
    const keepMs = lease.minHoldLeftMs;
    if (keepMs === 0) return abandon();
    // minHold promises that the key stays until then
    outsideCallChain(() => setTimeout(abandon, Math.min(keepMs, LONGEST_TIMER_MS))).unref();
  }

  #abandon(lease: Lease): Promise<void> {
    const { key, token, terms } = lease;
    return this.store.abandon({ key: key.full, token, leaseMs: leaseMsOf(terms), ttlMs: terms.ttlMs });
  }
}
