import type { HandlerOutcome, HandlerState } from './guarded-run.js';

/** Ends one run of the method. */
export interface RunningHandler {
  succeeded(value: unknown): void;
  failed(error: unknown): void;
  /** Its Observable was unsubscribed from outside: nobody knows how its work ends. */
  cutOff(): void;
}

/**
 * Follows what the method itself does inside one guarded call. The chain around it may end sooner (a time-out)
 * or call it again (a retry); the lock is kept until the method is over.
 */
export class HandlerTracker {
  #running = 0;
  #state: HandlerState = 'notCalled';
  #outcome: HandlerOutcome = {};
  #idle: Array<() => void> = [];

  begin(): RunningHandler {
    this.#running += 1;
    let open = true;
    const end = (state: HandlerState, outcome: HandlerOutcome): void => {
      if (!open) return;
      open = false;
      this.#running -= 1;
      this.#state = state;
      this.#outcome = outcome;
      if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
    };
    return {
      succeeded: (value) => end('succeeded', { value }),
      failed: (error) => end('failed', { error }),
      cutOff: () => end('running', {}),
    };
  }

  get state(): HandlerState {
    return this.#running > 0 ? 'running' : this.#state;
  }

  get outcome(): HandlerOutcome {
    return this.#outcome;
  }

  get busy(): boolean {
    return this.#running > 0;
  }

  /** Resolves when no run goes on. */
  idle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }
}
