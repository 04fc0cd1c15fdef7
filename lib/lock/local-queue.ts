import { outsideCallChain } from '../outside-call-chain.js';
import { LONGEST_TIMER_MS } from './delay.js';
import type { Waiter } from './waiter.js';

/**
 * The line of this process for one key, first in, first out. Only its head asks the store: a thousand waiters
 * cost what one costs.
 */
export class LocalQueue {
  // linked through the waiters: anybody enters and leaves in constant time
  #first: Waiter | undefined;
  #last: Waiter | undefined;
  #size = 0;
  #wake: (() => void) | undefined;
  #woken = false;

  get head(): Waiter | undefined {
    return this.#first;
  }

  get size(): number {
    return this.#size;
  }

  enter(waiter: Waiter): void {
    waiter.before = this.#last;
    if (this.#last) this.#last.after = waiter;
    else this.#first = waiter;
    this.#last = waiter;
    this.#size++;
  }

  leave(waiter: Waiter): void {
    const { before, after } = waiter;
    if (!before && this.#first !== waiter) return;
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    else this.#last = before;
    waiter.before = waiter.after = undefined;
    // nobody left to pause for: let the asking end, and the queue go
    if (--this.#size === 0) this.wake();
  }

  all(): readonly Waiter[] {
    const all: Waiter[] = [];
    for (let waiter = this.#first; waiter; waiter = waiter.after) all.push(waiter);
    return all;
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

  /** Pauses until woken, at most `ms`. Tells whether it was woken. */
  pause(ms: number): Promise<boolean> {
    if (this.#woken) {
      this.#woken = false;
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve(this.#woken);
        this.#woken = false;
      };
      const timer = outsideCallChain(() => setTimeout(end, Math.min(ms, LONGEST_TIMER_MS)));
      this.#wake = end;
    });
  }
}
