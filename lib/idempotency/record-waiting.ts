import type { BeginReply } from '../backend/backend.js';
import { outsideCallChain } from '../outside-call-chain.js';

/** Node clamps longer timers to 1 ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 250;
/** A try with less time than this would only be cut off. */
const LEAST_ASK_MS = 50;

/** One repeat that waits for the first request to end. */
export interface WaitRequest {
  recordKey: string;
  fingerprint: string | null;
  timeoutMs: number;
  /** What the store said before: the answer when the time is up. */
  busy: BeginReply;
  /** Begins again, with the waiter's own owner. Ends within about `budgetMs`. */
  ask(budgetMs: number): Promise<BeginReply>;
}

interface Waiter extends Pick<WaitRequest, 'ask' | 'busy'> {
  /** By the monotonic clock. */
  until: number;
  answer(reply: BeginReply): void;
  fail(error: unknown): void;
}

/**
 * Where repeats wait for a record that is still pending. Only the first waiter of a record asks the store, with
 * jittered pauses; a finished record answers all of them at once, a failed one lets exactly one run. A run that
 * ends in this process wakes them.
 */
export class RecordWaiting {
  readonly #rooms = new Map<string, Set<WaitingRoom>>();

  /** The reply that ends the wait; `busy` when the time is up. */
  wait(request: WaitRequest): Promise<BeginReply> {
    const { ask, busy, timeoutMs } = request;
    return new Promise((answer, fail) => {
      this.#roomOf(request).enter({ ask, busy, until: performance.now() + timeoutMs, answer, fail });
    });
  }

  /** The record changed: look at once. */
  wake(recordKey: string): void {
    for (const room of this.#rooms.get(recordKey) ?? []) room.wake();
  }

  /** Turns every waiter away. */
  close(error: Error): void {
    for (const rooms of [...this.#rooms.values()]) for (const room of [...rooms]) room.close(error);
  }

  #roomOf({ recordKey, fingerprint }: WaitRequest): WaitingRoom {
    const rooms = this.#rooms.get(recordKey) ?? new Set();
    this.#rooms.set(recordKey, rooms);
    // another request under the same key must be told so: it asks for itself
    for (const room of rooms) if (room.fingerprint === fingerprint) return room;
    const room = new WaitingRoom(fingerprint, () => {
      if (rooms.delete(room) && rooms.size === 0) this.#rooms.delete(recordKey);
    });
    rooms.add(room);
    return room;
  }
}

/** The waiters of one record and one fingerprint, first come first served. */
class WaitingRoom {
  readonly #waiters = new Set<Waiter>();
  /** Who asks at this moment. */
  #asking: Waiter | undefined;
  #pauseMs = FIRST_PAUSE_MS;
  #lookAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    readonly fingerprint: string | null,
    private readonly onEmpty: () => void,
  ) {}

  enter(waiter: Waiter): void {
    if (this.#waiters.size === 0) this.#pause();
    this.#waiters.add(waiter);
    this.#arm();
  }

  wake(): void {
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#lookAt = 0;
    this.#arm();
  }

  close(error: Error): void {
    for (const waiter of this.#waiters) waiter.fail(error);
    this.#waiters.clear();
    this.#arm();
  }

  #pause(): void {
    this.#lookAt = performance.now() + this.#pauseMs * (0.5 + Math.random() / 2);
    this.#pauseMs = Math.min(this.#pauseMs * 1.5, LONGEST_PAUSE_MS);
  }

  /** Sleeps until the next look, or until somebody's time is up. */
  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#asking) return;
    if (this.#waiters.size === 0) return this.onEmpty();
    let at = this.#lookAt;
    for (const { until } of this.#waiters) at = Math.min(at, until);
    const delay = Math.min(Math.max(0, Math.ceil(at - performance.now())), LONGEST_TIMER_MS);
    this.#timer = outsideCallChain(() => setTimeout(() => void this.#look(), delay));
    this.#timer.unref();
  }

  async #look(): Promise<void> {
    const now = performance.now();
    for (const waiter of this.#waiters) if (waiter.until <= now) this.#answer(waiter, waiter.busy);
    const [head] = this.#waiters;
    if (head && this.#lookAt <= now) {
      this.#asking = head;
      this.#pause();
      try {
        this.#heard(head, await head.ask(Math.max(LEAST_ASK_MS, head.until - now)));
      } catch (error) {
        this.#waiters.delete(head);
        head.fail(error);
      }
      this.#asking = undefined;
    }
    this.#arm();
  }

  #heard(head: Waiter, reply: BeginReply): void {
    switch (reply.status) {
      case 'busy':
        head.busy = reply;
        return;
      case 'new':
      case 'takeover':
        // the head runs now; the others wait for it
        this.#pauseMs = FIRST_PAUSE_MS;
        return this.#answer(head, reply);
      default:
        for (const waiter of this.#waiters) this.#answer(waiter, reply);
    }
  }

  #answer(waiter: Waiter, reply: BeginReply): void {
    this.#waiters.delete(waiter);
    waiter.answer(reply);
  }
}
