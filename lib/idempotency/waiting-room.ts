import type { BeginReply, Inbox } from '../backend/backend.js';
import { isRedisLockError, type StoreUnavailableError } from '../errors.js';
import type { Deadlines, Timed } from '../lock/deadlines.js';
import { lookAfter, pauseAfterFailure } from '../lock/look-times.js';
import type { Clock } from '../lock/validity.js';
import { outsideCallChain } from '../outside-call-chain.js';

/** A look with less time than this would only be cut off. */
const LEAST_LOOK_MS = 50;

export type BusyReply = Extract<BeginReply, { status: 'busy' }>;

/** One repeat that waits for the first request to end. */
export interface WaitRequest {
  recordKey: string;
  fingerprint: string | null;
  /** When its time is up, by the monotonic clock. */
  until: number;
  /** Begins again, with the waiter's own owner. Ends within about `budgetMs`. */
  ask(budgetMs: number, queue: boolean): Promise<BeginReply>;
}

/** What the waiting rooms of an engine share. */
export interface WaitingContext {
  inbox: Inbox;
  deadlines: Deadlines;
  clock: Clock;
}

interface Waiter extends Timed {
  request: WaitRequest;
  deadline: number | undefined;
  answer(reply: BeginReply): void;
  fail(error: unknown): void;
}

/**
 * The waiters of one record and one fingerprint, first come first served. Only the first of them asks the store,
 * when the inbox says that the record has ended, at the end of the owner's lease, and once a second anyway: a
 * message is a hint, asking is the guarantee. Where no message can come it asks more often.
 */
export class WaitingRoom {
  readonly #waiters = new Set<Waiter>();
  /** Who asks at this moment. */
  #asking: Waiter | undefined;
  /** Something was heard since the last look was sent. */
  #woken = false;
  /** Looks in a row that were not followed by a message's promise. */
  #deafLooks = 0;
  #lookAt = 0;
  #timer: NodeJS.Timeout | undefined;
  /** What the store said last. */
  #last: BusyReply | StoreUnavailableError;
  /** Whether the store may have noted our inbox in the record. */
  #noted = false;

  /** @param onEmpty told when nobody waits any more, and whether the record may still name our inbox. */
  constructor(
    readonly fingerprint: string | null,
    busy: BusyReply,
    private readonly context: WaitingContext,
    private readonly onEmpty: (noted: boolean) => void,
  ) {
    this.#last = busy;
  }

  /** The reply that ends the wait; the last `busy` when the time is up. */
  enter(request: WaitRequest): Promise<BeginReply> {
    return new Promise((answer, fail) => {
      const waiter: Waiter = {
        request,
        deadline: undefined,
        answer,
        fail,
        timeUp: () => {
          waiter.deadline = undefined;
          // what it has begun meanwhile would be nobody's: its look is over by then, or nearly
          if (waiter !== this.#asking) this.#timeUp(waiter);
        },
      };
      waiter.deadline = this.context.deadlines.enter(waiter, request.until);
      this.#waiters.add(waiter);
      if (this.#waiters.size === 1) this.#arm();
    });
  }

  /** The record may have ended: look at once. */
  wake(): void {
    this.#woken = true;
    this.#deafLooks = 0;
    this.#lookAt = 0;
    this.#arm();
  }

  close(error: Error): void {
    for (const waiter of this.#waiters) this.#leave(waiter, () => waiter.fail(error));
  }

  #arm(): void {
    if (this.#asking || this.#waiters.size === 0) return;
    clearTimeout(this.#timer);
    const delay = Math.max(0, Math.ceil(this.#lookAt - this.context.clock.monotonic()));
    this.#timer = outsideCallChain(() => setTimeout(() => void this.#look(), delay));
    this.#timer.unref();
  }

  async #look(): Promise<void> {
    const [head] = this.#waiters;
    if (!head) return;
    const { inbox, clock } = this.context;
    // in the background: that it listens is told, and then it is asked again
    if (inbox.state === 'closed') void inbox.open(1);
    const queue = inbox.state === 'listening';
    this.#asking = head;
    this.#woken = false;
    this.#noted ||= queue;
    const budgetMs = Math.max(LEAST_LOOK_MS, head.request.until - clock.monotonic());
    let after: () => void;
    try {
      const reply = await head.request.ask(budgetMs, queue);
      after = () => this.#heard(head, reply, queue);
    } catch (error) {
      after = () => this.#failed(head, error);
    }
    this.#asking = undefined;
    after();
    if (this.#waiters.has(head) && head.request.until <= clock.monotonic()) this.#timeUp(head);
    this.#arm();
  }

  #heard(head: Waiter, reply: BeginReply, queued: boolean): void {
    switch (reply.status) {
      case 'busy':
        this.#last = reply;
        return this.#lookLater(queued ? lookAfter(reply.leaseMs) : pauseAfterFailure(this.#deafLooks++));
      case 'new':
      case 'takeover':
        // the head runs now; the others wait for it, and note their inbox anew
        this.#lookAt = 0;
        return this.#leave(head, () => head.answer(reply));
      default:
        this.#noted = false;
        for (const waiter of this.#waiters) this.#leave(waiter, () => waiter.answer(reply));
    }
  }

  /** An outage may pass before the time is up; what no second look can change is told at once. */
  #failed(head: Waiter, error: unknown): void {
    if (isRedisLockError(error, 'STORE_UNAVAILABLE') && (error as StoreUnavailableError).retryable) {
      this.#last = error as StoreUnavailableError;
      return this.#lookLater(pauseAfterFailure(this.#deafLooks++));
    }
    this.#leave(head, () => head.fail(error));
  }

  #lookLater(pauseMs: number): void {
    this.#lookAt = this.#woken ? 0 : this.context.clock.monotonic() + pauseMs;
  }

  #timeUp(waiter: Waiter): void {
    const last = this.#last;
    this.#leave(waiter, () => ('status' in last ? waiter.answer(last) : waiter.fail(last)));
  }

  #leave(waiter: Waiter, settle: () => void): void {
    if (!this.#waiters.delete(waiter)) return;
    if (waiter.deadline !== undefined) this.context.deadlines.leave(waiter, waiter.deadline);
    settle();
    if (this.#waiters.size > 0) return;
    clearTimeout(this.#timer);
    this.onEmpty(this.#noted);
  }
}
