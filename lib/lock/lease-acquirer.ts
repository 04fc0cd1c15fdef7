import type { AcquireReply, Backend } from '../backend/backend.js';
import { LockBusyError, LockClosedError, LockTimeoutError, StoreUnavailableError } from '../errors.js';
import type { Budget } from './budget.js';
import { leaseMsOf, type Grant, type Lease, type LeaseTerms } from './lease.js';
import type { LeaseReleaser } from './lease-releaser.js';
import { LocalQueue } from './local-queue.js';
import type { LockEvents } from './lock-events.js';
import type { LockKey } from './lock-key.js';
import { asFailure, isFailure } from './store-failure.js';
import type { TokenSource } from './token-source.js';
import { instant, type Clock, type Instant } from './validity.js';
import { Waiter } from './waiter.js';

const COMMAND_TIMEOUT_MS = 1_000;
/** The head of a queue looks again after this, growing while it finds the key held. */
const FIRST_LOOK_MS = 25;
const LONGEST_LOOK_MS = 250;
/** A question that is open for this long when the time is up means that the store is at fault, not a holder. */
const SILENT_MS = 100;

type Answer = AcquireReply | StoreUnavailableError;

export interface LeaseAcquirerSettings {
  backend: Backend;
  tokens: TokenSource;
  releaser: LeaseReleaser;
  events: LockEvents;
  clock: Clock;
  /** Makes the lease of a grant. */
  lease(grant: Grant): Lease;
  /** Takes a granted lease into care (the watchdog), before its waiter learns of it. */
  granted(lease: Lease): void;
  background(work: Promise<unknown>): void;
}

/**
 * Gets leases from the store: the waiting in line, the asking by the head of the line, and everything that can
 * go wrong between a question and its answer.
 */
export class LeaseAcquirer {
  readonly #queues = new Map<string, LocalQueue>();
  #closed = false;
  /** Lines that are served, and single tries under way. */
  #open = 0;
  #onIdle: (() => void) | undefined;

  constructor(private readonly settings: LeaseAcquirerSettings) {}

  /** Waits for a lease inside the budget; a budget of 0 is one try. */
  acquire(key: LockKey, terms: LeaseTerms, budget: Budget): Promise<Lease> {
    if (this.#closed) return Promise.reject(new LockClosedError([key.name]));
    const known = this.#queues.get(key.full);
    if (budget.timeoutMs === 0 && known && known.size > 0 && known.lastAnswer === 'busy') {
      // others wait already: a single try must not overtake them
      this.#contended(key);
      return Promise.reject(new LockBusyError([key.name]));
    }
    const waiter = new Waiter(key, terms, budget, this.settings.tokens.next(), this);
    if (budget.timeoutMs === 0) {
      void this.#tryOnce(waiter);
      return waiter.promise;
    }
    const queue = known ?? new LocalQueue();
    queue.enter(waiter);
    if (known) {
      waiter.bound(() => this.#timeoutError(waiter, queue));
    } else {
      this.#queues.set(key.full, queue);
      void this.#serve(key, queue);
    }
    return waiter.promise;
  }

  /** The key may be free: a hold of this process ended. */
  wake(key: LockKey): void {
    this.#queues.get(key.full)?.wake();
  }

  /** Whether somebody of this process waits for the key. */
  isAwaited(key: LockKey): boolean {
    return this.#queues.has(key.full);
  }

  /** Refuses everybody who waits, and whoever comes. */
  close(): void {
    this.#closed = true;
    for (const queue of this.#queues.values()) {
      for (const waiter of queue.all()) waiter.fail(new LockClosedError([waiter.key.name]));
    }
  }

  /** A waiter gave up. */
  left(waiter: Waiter): void {
    this.#queues.get(waiter.key.full)?.leave(waiter);
  }

  async #tryOnce(waiter: Waiter): Promise<void> {
    this.#open++;
    const sentAt = instant(this.settings.clock);
    const answer = await this.#ask(waiter, COMMAND_TIMEOUT_MS);
    if (isFailure(answer)) {
      this.#abandonIfDoubtful(waiter);
      waiter.fail(answer);
    } else if (answer.status === 'busy') {
      this.#contended(waiter.key);
      waiter.fail(new LockBusyError([waiter.key.name]));
    } else if (!this.#settleGrant(waiter, answer.fencingToken, sentAt)) {
      waiter.fail(
        new StoreUnavailableError('The store answered after the lease had run out.', {
          keys: waiter.key.name,
        }),
      );
    }
    this.#answered();
  }

  /** Resolves when no question is open any more. */
  get idle(): Promise<void> {
    if (this.#open === 0) return Promise.resolve();
    return new Promise((resolve) => (this.#onIdle = resolve));
  }

  #answered(): void {
    if (--this.#open === 0) this.#onIdle?.();
  }

  /** Asks for the head of the line until the line is empty. One question at a time. */
  async #serve(key: LockKey, queue: LocalQueue): Promise<void> {
    let looks = 0;
    this.#open++;
    for (let waiter = queue.head; waiter; waiter = queue.head) {
      const sentAt = instant(this.settings.clock);
      queue.listen();
      queue.askedAt = sentAt.monotonic;
      const answer = await this.#ask(waiter, Math.min(COMMAND_TIMEOUT_MS, Math.ceil(waiter.budget.leftMs)));
      queue.askedAt = undefined;
      queue.lastAnswer = isFailure(answer) ? answer : 'busy';

      if (isFailure(answer)) {
        await this.#afterFailure(waiter, queue, answer);
      } else if (answer.status === 'granted') {
        looks = 0;
        if (this.#settleGrant(waiter, answer.fencingToken, sentAt)) {
          queue.leave(waiter);
          // what is granted now is freed here, and that wakes: looking is only for a key that is taken away
          if (queue.size > 0) await queue.pause(LONGEST_LOOK_MS);
        } else {
          waiter.bound(() => this.#timeoutError(waiter, queue));
        }
      } else {
        this.#contendedBy(waiter, queue);
        await queue.pause(lookAfter(looks++, answer.remainingMs));
      }
      if (waiter.settled) this.#abandonIfDoubtful(waiter);
    }
    this.#queues.delete(key.full);
    this.#answered();
  }

  async #ask(waiter: Waiter, timeoutMs: number): Promise<Answer> {
    const { key, terms, token } = waiter;
    try {
      return await this.settings.backend.locks.acquire(
        { key: key.full, token, leaseMs: leaseMsOf(terms), ttlMs: terms.ttlMs },
        Math.max(1, timeoutMs),
      );
    } catch (error) {
      const failure = asFailure(error, key);
      if (failure.outcome === 'unknown') waiter.doubtful = true;
      this.settings.events.emit('unavailable', () => ({ key: key.name, error: failure }));
      return failure;
    }
  }

  async #afterFailure(waiter: Waiter, queue: LocalQueue, failure: StoreUnavailableError): Promise<void> {
    const hopeless = failure.outcome !== 'unknown' && !failure.retryable;
    if (hopeless || waiter.budget.leftMs <= 0) waiter.fail(failure);
    if (waiter.settled) return;
    waiter.bound(() => this.#timeoutError(waiter, queue));
    await this.settings.backend
      .whenReady(Math.min(COMMAND_TIMEOUT_MS, waiter.budget.leftMs))
      .catch(() => undefined);
    await queue.pause(Math.min(FIRST_LOOK_MS * (0.5 + Math.random()), waiter.budget.leftMs));
  }

  /** Hands a grant to its waiter; gives it back when nobody wants it or when it came too late to be believed. */
  #settleGrant(waiter: Waiter, fencingToken: number, sentAt: Instant): boolean {
    const { key, terms, token, doubtful } = waiter;
    const lease = this.settings.lease({ key, token, fencingToken, terms, sentAt, doubtful });
    waiter.doubtful = false;
    if (!waiter.settled && lease.validityLeftMs > 0) {
      this.settings.granted(lease);
      waiter.grant(lease);
      return true;
    }
    this.giveBack(lease);
    // a token that was released is never asked with again
    waiter.token = this.settings.tokens.next();
    return false;
  }

  /** Releases, in the background, a lease that nobody came to hold. */
  giveBack(lease: Lease): void {
    lease.beginRelease();
    this.settings.background(
      this.settings.releaser.releaseUnheld(lease).then(() => {
        lease.done();
        this.wake(lease.key);
      }),
    );
  }

  #abandonIfDoubtful(waiter: Waiter): void {
    if (!waiter.doubtful) return;
    waiter.doubtful = false;
    this.settings.background(
      this.settings.backend.locks.abandon({
        key: waiter.key.full,
        token: waiter.token,
        leaseMs: leaseMsOf(waiter.terms),
      }),
    );
  }

  #contendedBy(waiter: Waiter, queue: LocalQueue): void {
    waiter.bound(() => this.#timeoutError(waiter, queue));
    if (waiter.contended) return;
    waiter.contended = true;
    this.#contended(waiter.key);
  }

  #contended(key: LockKey): void {
    this.settings.events.emit('contended', () => ({ key: key.name }));
  }

  #timeoutError(waiter: Waiter, queue: LocalQueue): Error {
    const { key, budget } = waiter;
    const { lastAnswer, askedAt } = queue;
    const silentMs = askedAt === undefined ? 0 : this.settings.clock.monotonic() - askedAt;
    if (lastAnswer === 'busy' && silentMs < Math.min(SILENT_MS, budget.timeoutMs / 2)) {
      return new LockTimeoutError([key.name], budget.spentMs);
    }
    return isFailure(lastAnswer)
      ? lastAnswer
      : new StoreUnavailableError(`The store did not answer within ${Math.round(budget.spentMs)} ms.`, {
          keys: key.name,
          outcome: 'unknown',
          retryable: true,
        });
  }
}

function lookAfter(looks: number, holderRemainingMs: number): number {
  const bound = Math.min(FIRST_LOOK_MS * 1.5 ** looks, LONGEST_LOOK_MS) * (0.75 + Math.random() * 0.5);
  return holderRemainingMs < 0 ? bound : Math.min(bound, holderRemainingMs + 1 + Math.random() * 4);
}
