import { FENCE_BLOCK, PASSED_ON_LEASE_MS, type AcquireReply, type InboxGrant } from '../backend/backend.js';
import { LockTimeoutError, StoreUnavailableError } from '../errors.js';
import { outsideCallChain } from '../outside-call-chain.js';
import { within } from './delay.js';
import { grantedSince, type Look } from './grant-clock.js';
import { leaseMsOf, type Lease } from './lease.js';
import type { LeaseRelease } from './lease-releaser.js';
import type { LineContext } from './line-context.js';
import { LocalQueue } from './local-queue.js';
import type { LockKey } from './lock-key.js';
import { LOOK_MS, lookAfter, lookWhenDeaf, pauseAfterFailure } from './look-times.js';
import { asFailure, isFailure } from './store-failure.js';
import { instant, type Instant } from './validity.js';
import type { Waiter, WaitingLine } from './waiter.js';

const COMMAND_TIMEOUT_MS = 1_000;
/** How long a caller waits for the answer of its release; the retries go on behind its back. */
const ANSWER_WITHIN_MS = 1_000;
/** A question that is open for this long when the time is up means that the store is at fault, not a holder. */
const SILENT_MS = 100;

/**
 * This process's place at one key: who waits here, first in, first out, the lease that one of them holds, and the
 * token under which the process stands in the store's queue. Only the line speaks to the store: a thousand
 * waiters cost what one costs.
 */
export class KeyLine implements WaitingLine {
  readonly #queue = new LocalQueue();
  /** The lease whose hold runs; nobody asks the store meanwhile. */
  #lease: Lease | undefined;
  /** The token that the next lease will have. */
  #token: string | undefined;
  /** A try with {@link #token} was never answered. */
  #doubtful = false;
  /** {@link #token} may stand in the store's queue. */
  #queued = false;
  #look: Look | undefined;
  /** A grant that was heard before the answer that it belongs behind. */
  #parked: { grant: InboxGrant; receivedAt: Instant } | undefined;
  /** The longest life that was asked for under {@link #token}. */
  #askedLeaseMs = 0;
  /** A give-way stands us in the queue: the next look waits for the message. */
  #waitsForMessage = false;
  #checkTimer: NodeJS.Timeout | undefined;
  #serving = false;
  #lastAnswer: 'busy' | StoreUnavailableError | undefined;
  /** By the monotonic clock: since when a question is unanswered. */
  #askedAt: number | undefined;

  constructor(
    readonly key: LockKey,
    private readonly context: LineContext,
  ) {}

  /** Whether somebody waits here behind a holder. */
  get isContended(): boolean {
    return this.#queue.size > 0 && (this.#lease !== undefined || this.#lastAnswer === 'busy');
  }

  get isAwaited(): boolean {
    return this.#queue.size > 0;
  }

  waiters(): readonly Waiter[] {
    return this.#queue.all();
  }

  enter(waiter: Waiter): void {
    const isFirst = this.#queue.size === 0 && !this.#lease;
    this.#queue.enter(waiter);
    if (!isFirst) this.#contended(waiter);
    if (this.#lease) this.#checkHolder();
    else this.#serve();
  }

  /** A waiter gave up. */
  left(waiter: Waiter): void {
    this.#queue.leave(waiter);
    this.#forgetIfEmpty();
  }

  /** A lease of this key that was not got by waiting here. */
  adopt(lease: Lease): void {
    if (this.#serving || this.#lease) return;
    this.#lease = lease;
  }

  /** What was said to the inbox meanwhile was missed. */
  inboxReopened(): void {
    if (!this.#lease) this.#queue.wake();
  }

  /** The lease was lost (its section may still run, but others may have the key) or came to no hold. */
  over(lease: Lease): void {
    this.#rest(lease);
    this.#queue.wake();
  }

  /** True when the token is this line's: else nobody here waits under it any more. */
  granted(grant: InboxGrant, receivedAt: Instant): boolean {
    if (this.#lease?.token === grant.token) return true;
    if (grant.token !== this.#token) return false;
    // two connections are not ordered: a grant may overtake the answer of the very command that queued us
    this.#parked = { grant, receivedAt };
    this.#queue.wake();
    return true;
  }

  forceReleased(token: string): void {
    if (this.#lease?.token === token) this.#lease.lose({ reason: 'released' });
  }

  /** The last hold of a lease ended: it goes to the next waiter of this process without asking, if it may. */
  handOff(lease: Lease): boolean {
    const next = this.#queue.head;
    if (this.#lease !== lease || !next) return false;
    const now = lease.now();
    if (!lease.canHandOffTo(next.terms, now)) return false;
    lease.handOff(next.terms, now);
    this.#queue.leave(next);
    next.grant(lease);
    return true;
  }

  /** The last hold of a lease ended: it goes back to the store, which passes it on to the next process. */
  free(lease: Lease): Promise<LeaseRelease> {
    const isCurrent = this.#lease === lease;
    const next = this.#queue.head;
    if (isCurrent && next && lease.minHoldLeftMs === 0) {
      const work = this.#giveWay(lease, next);
      this.context.background(work);
      return within(work, ANSWER_WITHIN_MS, 'unanswered');
    }
    lease.beginRelease();
    return this.context.releaser.release(lease).then((release) => {
      this.#queue.wake();
      if (isCurrent) this.#rest(lease);
      else this.#forgetIfEmpty();
      return release;
    });
  }

  async #giveWay(lease: Lease, head: Waiter): Promise<LeaseRelease> {
    const token = this.#newToken();
    this.#askedLeaseMs = leaseMsOf(head.terms);
    // also when no answer comes: the store may have done it
    this.#queued = true;
    lease.beginRelease();
    const { release, next, doubtful } = await this.context.releaser.giveWay(lease, token, head.terms);
    this.#doubtful ||= doubtful;
    if (next?.reply.status === 'kept') {
      this.#lease = undefined;
      this.#begin(next.reply.fencingToken, next.sentAt, leaseMsOf(head.terms), head);
    } else if (next?.reply.status === 'released') {
      this.#remember(next.sentAt, next.reply.time);
      this.#waitsForMessage = true;
    }
    this.#rest(lease);
    return release;
  }

  /** A lease of this line is over: those who wait ask again. */
  #rest(lease: Lease): void {
    if (this.#lease === lease) this.#lease = undefined;
    this.#serve();
    this.#forgetIfEmpty();
  }

  #serve(): void {
    if (this.#serving || this.#lease || this.#queue.size === 0) return;
    this.#serving = true;
    void this.#ask();
  }

  async #ask(): Promise<void> {
    try {
      await this.#askUntilHeld();
    } finally {
      this.#serving = false;
      // somebody may have come since the line was found empty
      this.#serve();
      this.#forgetIfEmpty();
    }
  }

  /** Asks for the head of the line until somebody holds the key or nobody waits. One question at a time. */
  async #askUntilHeld(): Promise<void> {
    const { clock, backend } = this.context;
    const { inbox } = backend.locks;
    let lookAt = this.#waitsForMessage ? clock.monotonic() + LOOK_MS : 0;
    let failures = 0;
    this.#waitsForMessage = false;
    for (let head = this.#queue.head; head && !this.#lease; head = this.#queue.head) {
      const waitMs = lookAt - clock.monotonic();
      if (waitMs > 0) {
        const woken = await this.#queue.pause(waitMs);
        if (this.#takeUp() !== 'none' || woken) lookAt = 0;
        continue;
      }
      this.#queue.listen();
      const queue = inbox.state === 'listening' && this.#lastAnswer === 'busy';
      const answer = await this.#askFor(head, queue);
      if (this.#takeUp() !== 'none') continue;
      if (isFailure(answer)) {
        lookAt = clock.monotonic() + (await this.#afterFailure(head, answer, failures++));
      } else if (answer.status === 'busy') {
        failures = 0;
        this.#contended(head);
        lookAt = clock.monotonic() + (await this.#afterBusy(head, answer.remainingMs, queue));
      }
    }
  }

  /** How long to wait for a message before the next look. */
  async #afterBusy(head: Waiter, remainingMs: number, queued: boolean): Promise<number> {
    const { inbox } = this.context.backend.locks;
    if (queued) return lookAfter(remainingMs);
    if (inbox.state === 'closed') await inbox.open(Math.min(COMMAND_TIMEOUT_MS, head.budget.leftMs));
    // an entry that is queued before its inbox listens would be skipped
    if (inbox.state === 'listening') return 0;
    return inbox.state === 'forbidden' ? lookWhenDeaf() : pauseAfterFailure(Infinity);
  }

  /** While others wait behind a hold of this process, a key that was taken away is found within a second. */
  #checkHolder(): void {
    if (this.#checkTimer) return;
    this.#checkTimer = outsideCallChain(() =>
      setTimeout(() => {
        this.#checkTimer = undefined;
        if (!this.#lease || this.#queue.size === 0) return;
        this.context.check(this.#lease);
        this.#checkHolder();
      }, LOOK_MS),
    );
    this.#checkTimer.unref();
  }

  /** One question. A grant is handed to the head of the line before this returns. */
  #askFor(head: Waiter, queue: boolean): Promise<AcquireReply | StoreUnavailableError> {
    const { backend, clock, events } = this.context;
    const { terms } = head;
    const token = (this.#token ??= this.context.tokens.next());
    const sentAt = instant(clock);
    this.#askedAt = sentAt.monotonic;
    this.#queued ||= queue;
    this.#askedLeaseMs = Math.max(this.#askedLeaseMs, leaseMsOf(terms));
    const request = { key: this.key.full, token, leaseMs: leaseMsOf(terms), ttlMs: terms.ttlMs, queue };
    const timeoutMs = Math.max(1, Math.min(COMMAND_TIMEOUT_MS, Math.ceil(head.budget.leftMs)));
    return backend.locks.acquire(request, timeoutMs).then(
      (answer) => {
        this.#askedAt = undefined;
        this.#lastAnswer = 'busy';
        this.#remember(sentAt, answer.time);
        if (answer.status === 'granted') this.#begin(answer.fencingToken, sentAt, leaseMsOf(terms), head);
        return answer;
      },
      (error: unknown) => {
        this.#askedAt = undefined;
        const failure = asFailure(error, this.key);
        if (failure.outcome === 'unknown') this.#doubtful = true;
        this.#lastAnswer = failure;
        events.emit('unavailable', () => ({ key: this.key.name, error: failure }));
        return failure;
      },
    );
  }

  /** Takes up a grant that was heard, if its lease can still be believed; else asking takes it up. */
  #takeUp(): 'taken' | 'ask' | 'none' {
    const parked = this.#parked;
    this.#parked = undefined;
    if (!parked || this.#lease || parked.grant.token !== this.#token) return 'none';
    const { clock, backend } = this.context;
    const { grant, receivedAt } = parked;
    const since = grantedSince(this.#look, grant.time, receivedAt, backend.locks.epoch, clock);
    const head = this.#queue.head;
    if (!since || !head) return 'ask';
    this.#begin(grant.fencingToken, since, PASSED_ON_LEASE_MS, head);
    return 'taken';
  }

  /** The key is ours under {@link #token}: its hold begins, or it goes back when nobody wants it. */
  #begin(fencingToken: number, sentAt: Instant, leaseMs: number, asker: Waiter): void {
    const head = this.#queue.head;
    const lease = this.context.lease({
      key: this.key,
      token: this.#token!,
      fencingToken,
      terms: (head ?? asker).terms,
      sentAt,
      leaseMs,
      block: FENCE_BLOCK,
      doubtful: this.#doubtful,
    });
    this.#dropToken();
    if (head && lease.validityLeftMs > 0) {
      this.#lease = lease;
      this.context.keep(lease);
      this.#queue.leave(head);
      head.grant(lease);
    } else {
      this.giveBack(lease);
      if (head) head.bound();
      this.#forgetIfEmpty();
    }
  }

  /** Releases, in the background, a lease that nobody came to hold. */
  giveBack(lease: Lease): void {
    lease.beginRelease();
    this.context.background(
      this.context.releaser.releaseUnheld(lease).then(() => {
        lease.done();
        this.#queue.wake();
        this.#forgetIfEmpty();
      }),
    );
  }

  async #afterFailure(head: Waiter, failure: StoreUnavailableError, failures: number): Promise<number> {
    const hopeless = failure.outcome !== 'unknown' && !failure.retryable;
    if (hopeless || head.budget.leftMs <= 0) head.fail(failure);
    if (head.settled) return 0;
    head.bound();
    await this.context.backend
      .whenReady(Math.min(COMMAND_TIMEOUT_MS, head.budget.leftMs))
      .catch(() => undefined);
    return pauseAfterFailure(failures);
  }

  /** Leaves the store's queue once nobody waits here. */
  #forgetIfEmpty(): void {
    if (this.#serving || this.#queue.size > 0) return;
    const token = this.#token;
    if (token && (this.#queued || this.#doubtful)) {
      const leaseMs = this.#askedLeaseMs;
      this.context.background(
        this.context.backend.locks.abandon({ key: this.key.full, token, leaseMs, ttlMs: leaseMs }),
      );
    }
    this.#dropToken();
    if (!this.#lease) this.context.emptied(this);
  }

  #newToken(): string {
    this.#dropToken();
    return (this.#token = this.context.tokens.next());
  }

  #dropToken(): void {
    this.#token = undefined;
    this.#parked = undefined;
    this.#queued = false;
    this.#doubtful = false;
    this.#askedLeaseMs = 0;
  }

  #remember(sentAt: Instant, time: number): void {
    this.#look = { sentAt, time, epoch: this.context.backend.locks.epoch };
  }

  #contended(waiter: Waiter): void {
    waiter.bound();
    if (waiter.contended) return;
    waiter.contended = true;
    if (!this.context.events.observed) return;
    this.context.events.emit('contended', () => ({ key: this.key.name }));
  }

  timeoutError({ budget }: Waiter): Error {
    const silentMs = this.#askedAt === undefined ? 0 : this.context.clock.monotonic() - this.#askedAt;
    const answers = this.#lastAnswer === 'busy' && silentMs < Math.min(SILENT_MS, budget.timeoutMs / 2);
    if (this.#lease || answers) return new LockTimeoutError([this.key.name], budget.spentMs);
    return isFailure(this.#lastAnswer)
      ? this.#lastAnswer
      : new StoreUnavailableError(`The store did not answer within ${Math.round(budget.spentMs)} ms.`, {
          keys: this.key.name,
          outcome: 'unknown',
          retryable: true,
        });
  }
}
