import { outsideCallChain } from '../outside-call-chain.js';
import type { StoreUnavailableError } from '../errors.js';
import type { Waiter } from './waiter.js';

/**
 * The line of this process for one key, first in, first out. Only its head asks the store: a thousand waiters
 * cost what one costs.
 */
export class LocalQueue {
  // a Set keeps the order of entering and takes anybody out in constant time
  readonly #line = new Set<Waiter>();
  #wake: (() => void) | undefined;
  #woken = false;
  /** What the store said last: held by another, or nothing for this reason. */
  lastAnswer: 'busy' | StoreUnavailableError | undefined;
  /** By the monotonic clock: since when a question is unanswered. */
  askedAt: number | undefined;

  get head(): Waiter | undefined {
    const [head] = this.#line;
    return head;
  }

  get size(): number {
    return this.#line.size;
  }

  enter(waiter: Waiter): void {
    this.#line.add(waiter);
  }

  leave(waiter: Waiter): void {
    this.#line.delete(waiter);
    // nobody left to pause for: let the asking end, and the queue go
    if (this.#line.size === 0) this.wake();
  }

  all(): readonly Waiter[] {
    return [...this.#line];
  }

  /** The key may be free: whoever pauses asks at once. */
  wake(): void {
    this.#woken = true;
    this.#wake?.();
  }

  /** A wake-up from here on ends the next pause, also one that begins later. */
  listen(): void {
    this.#woken = false;
  }

  /** Pauses until woken, at most `ms`. */
  pause(ms: number): Promise<void> {
    if (this.#woken) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
      const timer = outsideCallChain(() => setTimeout(end, ms));
      this.#wake = end;
    });
  }
}
