/**
 * What a decorated method is doing: `notCalled` it was not reached (a pipe, an interceptor or the lock stopped
 * the call before); `running` at least one run of it goes on, or its Observable was cut off from outside so
 * that nobody knows whether its work goes on; `succeeded` and `failed` speak of its last run.
 */
export type HandlerState = 'notCalled' | 'running' | 'succeeded' | 'failed';

/** The outcome of the method itself, before anything of the application around it changed it. */
export interface HandlerOutcome {
  value?: unknown;
  error?: unknown;
}

/**
 * One guarded call as the idempotency layer sees it: everything inside it (the lock, the application's
 * interceptors and pipes, the method), begun when it is asked for.
 */
export interface GuardedRun {
  /**
   * The value of everything inside. Errors of this package arrive as they are; the mapping to a transport is
   * done further out. It may settle while the method still runs: a time-out around it answers at once.
   */
  readonly value: Promise<unknown>;
  /** What the method itself did so far. */
  handler(): HandlerState;
  /** Resolves when {@link value} has settled and no run of the method goes on any more. Never rejects. */
  readonly settled: Promise<void>;
  /** The method's own last outcome, when it succeeded or failed. */
  outcome(): HandlerOutcome;
}
