import { outsideCallChain } from '../../outside-call-chain.js';

/** More would overflow Node's timers and fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** What is told when its time is up. */
export interface PendingCommand {
  /** By the monotonic clock. */
  readonly expiresAt: number;
  expire(): void;
}

/**
 * The time-outs of commands, which hardly ever come: all share one timer, and a command that is answered touches
 * no timer at all. So the timer may outlive the last answer by one time-out; it never keeps the process alive.
 */
export class CommandTimeouts {
  private readonly pending = new Set<PendingCommand>();
  private timer: NodeJS.Timeout | undefined;
  private timerAt = Infinity;

  /** {@link remove} must follow once it is answered. */
  add(command: PendingCommand): void {
    this.pending.add(command);
    if (command.expiresAt < this.timerAt) this.arm(command.expiresAt);
  }

  remove(command: PendingCommand): void {
    this.pending.delete(command);
  }

  private arm(at: number): void {
    clearTimeout(this.timer);
    this.timerAt = at;
    const delay = Math.min(Math.max(0, Math.ceil(at - performance.now())), LONGEST_TIMER_MS);
    this.timer = outsideCallChain(() => setTimeout(() => this.due(), delay).unref());
  }

  private due(): void {
    this.timer = undefined;
    this.timerAt = Infinity;
    const now = performance.now();
    let next = Infinity;
    for (const command of this.pending) {
      if (command.expiresAt <= now) {
        this.pending.delete(command);
        command.expire();
      } else {
        next = Math.min(next, command.expiresAt);
      }
    }
    // an expiry may have led to another command
    if (next < this.timerAt) this.arm(next);
  }
}
