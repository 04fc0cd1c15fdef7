/** Somebody who stands in line. */
export interface Turn {
  /** Resolves when it is their turn. */
  readonly granted: Promise<void>;
  /** Ends the turn, or leaves the line. May be called again. */
  end(): void;
}

/**
 * A line inside one process: one at a time, first in, first out. Nested holds of one parent take turns here,
 * so that reentrancy never runs two sections of one key at once.
 */
export class TurnQueue {
  readonly #line = new Set<() => void>();

  enter(): Turn {
    let grant!: () => void;
    const granted = new Promise<void>((resolve) => (grant = resolve));
    this.#line.add(grant);
    if (this.#line.size === 1) grant();
    return {
      granted,
      end: () => {
        const [first] = this.#line;
        if (!this.#line.delete(grant) || first !== grant) return;
        const [next] = this.#line;
        next?.();
      },
    };
  }

  /** Whether nobody stands here. */
  get idle(): boolean {
    return this.#line.size === 0;
  }
}
