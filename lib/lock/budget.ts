import { elapsedSince, instant, type Clock, type Instant } from './validity.js';

/** What bounds one acquisition: `waitTimeout`, from the moment of the call. */
export class Budget {
  readonly startedAt: Instant;

  constructor(
    readonly timeoutMs: number,
    readonly signal: AbortSignal | undefined,
    private readonly clock: Clock,
  ) {
    this.startedAt = instant(clock);
  }

  /** When it is spent, by the monotonic clock. */
  get endsAt(): number {
    return this.startedAt.monotonic + this.timeoutMs;
  }

  get spentMs(): number {
    return elapsedSince(this.startedAt, this.clock);
  }

  get leftMs(): number {
    return Math.max(0, this.timeoutMs - this.spentMs);
  }
}
