import { outsideCallChain } from '../outside-call-chain.js';
import { LONGEST_TIMER_MS } from './delay.js';
import type { Clock } from './validity.js';

/** Deadlines this close together share a timer: none is met earlier, and none later by more than this. */
const GRAIN_MS = 10;

/** What is told when its time is up. */
export interface Timed {
  timeUp(): void;
}

interface Bucket {
  readonly members: Set<Timed>;
  readonly timer: NodeJS.Timeout;
}

/**
 * The deadlines of many waiters, most of which never come: entering and leaving take constant time and, where
 * many wait at once, no timer of their own.
 */
export class Deadlines {
  readonly #buckets = new Map<number, Bucket>();

  constructor(private readonly clock: Clock) {}

  /**
   * @param at by the monotonic clock.
   * @returns what {@link leave} takes; undefined when it is too far away to be timed.
   */
  enter(timed: Timed, at: number): number | undefined {
    const slot = Math.ceil(at / GRAIN_MS);
    let bucket = this.#buckets.get(slot);
    if (!bucket) {
      const delay = slot * GRAIN_MS - this.clock.monotonic();
      if (delay > LONGEST_TIMER_MS) return undefined;
      const timer = outsideCallChain(() => setTimeout(() => this.#due(slot), Math.ceil(delay)));
      bucket = { members: new Set(), timer };
      this.#buckets.set(slot, bucket);
    }
    bucket.members.add(timed);
    return slot;
  }

  leave(timed: Timed, slot: number): void {
    const bucket = this.#buckets.get(slot);
    if (!bucket?.members.delete(timed) || bucket.members.size > 0) return;
    clearTimeout(bucket.timer);
    this.#buckets.delete(slot);
  }

  #due(slot: number): void {
    const bucket = this.#buckets.get(slot);
    this.#buckets.delete(slot);
    for (const timed of bucket?.members ?? []) timed.timeUp();
  }
}
