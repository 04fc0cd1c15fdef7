interface Entry<V> {
  value: V;
  /** By the map's clock, in milliseconds. */
  expiresAt: number;
}

/** How many entries one look of the sweep takes in, and how many looks a sweep may have: bounds its time. */
const SWEEP_BATCH = 2_000;
const SWEEP_BATCHES = 25;

/**
 * A map whose entries end by the clock. An entry past its end is never seen; {@link sweep} takes the memory of
 * those that nobody asks for. No timer of its own, and none for an entry.
 */
export class ExpiringMap<V> {
  private readonly entries = new Map<string, Entry<V>>();
  private cursor: Iterator<[string, Entry<V>]> | undefined;

  constructor(private readonly clock: () => number) {}

  /** Counts what stands in memory, ended entries included. */
  get size(): number {
    return this.entries.size;
  }

  get(key: string): V | undefined {
    return this.live(key)?.value;
  }

  /** What is left of the entry's life in whole milliseconds, at least 1; 0 when there is none. */
  remainingMs(key: string): number {
    const entry = this.live(key);
    return entry ? Math.ceil(entry.expiresAt - this.clock()) : 0;
  }

  set(key: string, value: V, lifeMs: number): void {
    this.entries.set(key, { value, expiresAt: this.clock() + lifeMs });
  }

  /** Sets how long the entry lives from now, shorter or longer. */
  expire(key: string, lifeMs: number): void {
    const entry = this.live(key);
    if (entry) entry.expiresAt = this.clock() + lifeMs;
  }

  /** Makes the entry live at least this long from now; never shortens its life. */
  prolong(key: string, lifeMs: number): void {
    const entry = this.live(key);
    if (entry) entry.expiresAt = Math.max(entry.expiresAt, this.clock() + lifeMs);
  }

  /** True when there was a living entry. */
  delete(key: string): boolean {
    return this.live(key) !== undefined && this.entries.delete(key);
  }

  /** The keys of this moment; those that have ended since may be among them. */
  keys(): string[] {
    return [...this.entries.keys()];
  }

  /**
   * Drops ended entries, going on where the last sweep stopped. It takes another batch only while a quarter of
   * the last one had ended, so that a large map of living entries costs little each time.
   */
  sweep(): void {
    const now = this.clock();
    for (let batch = 0; batch < SWEEP_BATCHES; batch++) {
      let ended = 0;
      for (let seen = 0; seen < SWEEP_BATCH; seen++) {
        this.cursor ??= this.entries.entries();
        const next = this.cursor.next();
        if (next.done) {
          this.cursor = undefined;
          return;
        }
        const [key, entry] = next.value;
        if (entry.expiresAt <= now) {
          this.entries.delete(key);
          ended++;
        }
      }
      if (ended < SWEEP_BATCH / 4) return;
    }
  }

  private live(key: string): Entry<V> | undefined {
    const entry = this.entries.get(key);
    if (entry === undefined || entry.expiresAt > this.clock()) return entry;
    this.entries.delete(key);
    return undefined;
  }
}
