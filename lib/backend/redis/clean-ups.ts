import { outsideCallChain } from '../../outside-call-chain.js';
import type { Connection } from './connection.js';
import { NOT_SENT, type Carrier } from './script-runner.js';

const AGAIN_AFTER_MS = 1_000;
/** More than can be cleaned up in time; beyond it the oldest are left to their lease. */
const MOST = 10_000;
/** An outage this much longer than the lease has ended what was to be cleaned up. */
const OUTAGE_LIMIT_MS = 600_000;

interface CleanUp {
  /** Takes back whatever the tries may have done; safe to repeat. Rejects when it was not answered. */
  undo: (carrier: Carrier) => Promise<unknown>;
  /** The tries that were not answered. */
  tries: readonly Carrier[];
  /** For how long a late try could still come and hold something. */
  leaseMs: number;
  startedAt: number;
  firstAnswerAt: number | undefined;
  running: boolean;
  done: () => void;
}

/**
 * Takes back, in the background, what commands without an answer may have done, or may still do.
 *
 * On the connection that carried the try, one answer is enough: Redis works through a connection in order. When
 * that connection is gone, its last bytes may still lie in the server's buffers: undone every second, for one
 * lease from the first answer on.
 */
export class CleanUps {
  private readonly jobs = new Set<CleanUp>();
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(private readonly connection: Connection) {
    connection.onReady(() => this.runAll());
  }

  /** Resolves when nothing can be left any more, or the store closes. Never rejects. */
  add(
    undo: (carrier: Carrier) => Promise<unknown>,
    tries: readonly Carrier[],
    leaseMs: number,
  ): Promise<void> {
    if (this.closed) return Promise.resolve();
    return new Promise((resolve) => {
      const job: CleanUp = {
        undo,
        tries,
        leaseMs,
        startedAt: performance.now(),
        firstAnswerAt: undefined,
        running: false,
        done: resolve,
      };
      if (this.jobs.size >= MOST) this.finish(this.jobs.values().next().value!);
      this.jobs.add(job);
      this.timer ??= outsideCallChain(() => setInterval(() => this.runAll(), AGAIN_AFTER_MS).unref());
      this.run(job);
    });
  }

  /** Cuts what is still to be done. */
  close(): void {
    this.closed = true;
    for (const job of this.jobs) this.finish(job);
  }

  private runAll(): void {
    for (const job of this.jobs) this.run(job);
  }

  private run(job: CleanUp): void {
    if (job.running) return;
    if (!this.connection.isReady) {
      if (performance.now() - job.startedAt > job.leaseMs + OUTAGE_LIMIT_MS) this.finish(job);
      return;
    }
    job.running = true;
    const carrier: Carrier = { epoch: NOT_SENT, answered: false };
    job.undo(carrier).then(
      () => {
        job.running = false;
        const now = performance.now();
        job.firstAnswerAt ??= now;
        const inOrder = job.tries.every((one) => this.isBehind(one, carrier));
        if (inOrder || now - job.firstAnswerAt >= job.leaseMs) this.finish(job);
      },
      () => {
        job.running = false;
      },
    );
  }

  private isBehind(earlier: Carrier, later: Carrier): boolean {
    if (earlier.answered || earlier.epoch === NOT_SENT) return true;
    // the client of a Cluster does not tell which of its connections carried a command
    return !this.connection.isCluster && earlier.epoch === later.epoch;
  }

  private finish(job: CleanUp): void {
    this.jobs.delete(job);
    if (this.jobs.size === 0) {
      clearInterval(this.timer);
      this.timer = undefined;
    }
    job.done();
  }
}
