import type { Lease } from './lease.js';
import { TurnQueue, type Turn } from './turn-queue.js';

/**
 * One holder's share of a lease. A hold of the store's grant is a root; a nested hold shares its parent's lease
 * and stands in the parent's line, so that two branches of one call chain never run at once.
 */
export class Hold {
  #turns: TurnQueue | undefined;
  #ended = false;

  constructor(
    readonly lease: Lease,
    /** Tells the holds of one lease apart; a nested hold has its parent's. */
    readonly fencingToken: number,
    private readonly turn?: Turn,
  ) {
    lease.holds++;
  }

  /** Where nested holds of this one take turns. Made on demand: most sections nest nothing. */
  get turns(): TurnQueue {
    return (this.#turns ??= new TurnQueue());
  }

  get isNested(): boolean {
    return this.turn !== undefined;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Whether it may still be re-entered: not ended, and its lease believed. */
  get alive(): boolean {
    return !this.#ended && this.lease.state === 'held' && this.lease.validityLeftMs > 0;
  }

  /** Ends it. True when it was the last of its lease: the key is to be freed. */
  end(): boolean {
    if (this.#ended) return false;
    this.#ended = true;
    this.turn?.end();
    return --this.lease.holds === 0;
  }
}
