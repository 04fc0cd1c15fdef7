import type { Backend, QuotaBatch, QuotaCall, QuotaReply } from '../backend/backend.js';
import { isStoreUnavailable, withRetries } from '../backend/retry.js';
import { StoreUnavailableError, type StoreOutcome } from '../errors.js';
import { outsideCallChain } from '../outside-call-chain.js';

/** One script holds the store for about a millisecond then, and others are served in between. */
const MOST_PER_BATCH = 512;

export interface CombinerSettings {
  backend: Backend;
  /** Names this process to the store: random, new at each start. */
  sender: string;
  /** Rises at each call, over all quotas of the sender. */
  nextNumber: () => number;
  operationTtlMs: number;
}

/** When a call ends without an answer, and what gives it up before. */
export interface CallLimits {
  /** By `performance.now()`. */
  endAt: number;
  signal?: AbortSignal | undefined;
}

interface Waiting {
  readonly call: QuotaCall;
  readonly endAt: number;
  readonly resolve: (reply: QuotaReply) => void;
  readonly reject: (error: StoreUnavailableError) => void;
  settled: boolean;
  /** Takes the listener off the caller's signal. */
  stopListening?: () => void;
}

/**
 * Carries the calls of this process on one quota to the store: while one script is under way, further calls queue
 * up, and the next script takes them all, in order. Nothing waits for more calls to come: what is asked in one tick goes
 * at its end, and under load the batches grow by themselves.
 *
 * A batch without an answer is sent again as it was, under the same number, until a try is answered or all its
 * callers have left. Who leaves (time, abort) is told whether the call may have been carried out; the batch is
 * not changed by it, because a try of it may be under way with that call in it.
 */
export class QuotaCombiner {
  private queue: Waiting[] = [];
  private flight: Waiting[] | undefined;
  /** Whether what is in flight may have been carried out: a try is under way, or was never answered. */
  private mayBeApplied = false;
  private scheduled = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly key: string,
    private readonly isShard: boolean,
    private readonly settings: CombinerSettings,
    private readonly onIdle: () => void,
  ) {}

  /**
   * @throws StoreUnavailableError with what became of the call: `notApplied` when no try with it has left, or each
   *   was answered so; else `unknown`.
   */
  submit(call: QuotaCall, { endAt, signal }: CallLimits): Promise<QuotaReply> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { call, endAt, resolve, reject, settled: false };
      if (signal) {
        if (signal.aborted) return reject(this.abortedError(signal, 'notApplied'));
        const onAbort = (): void => this.leave(waiting, (outcome) => this.abortedError(signal, outcome));
        signal.addEventListener('abort', onAbort, { once: true });
        waiting.stopListening = () => signal.removeEventListener('abort', onAbort);
      }
      this.queue.push(waiting);
      if (this.timer === undefined) this.watch(endAt);
      if (this.flight || this.scheduled) return;
      this.scheduled = true;
      // the callers that one answer woke ask again in the same tick: one script for all of them
      outsideCallChain(() => process.nextTick(() => void this.run()));
    });
  }

  private async run(): Promise<void> {
    this.scheduled = false;
    while (this.queue.length > 0) {
      const flight = this.queue.splice(0, MOST_PER_BATCH);
      this.flight = flight;
      // eslint-disable-next-line no-await-in-loop -- one script at a time is what this is
      await this.send(flight);
      this.flight = undefined;
      this.mayBeApplied = false;
    }
    clearTimeout(this.timer);
    // who asks now finds another combiner: numbers rise over all of them, and nothing is under way
    this.onIdle();
  }

  private async send(flight: readonly Waiting[]): Promise<void> {
    const { backend, sender, nextNumber, operationTtlMs } = this.settings;
    const batch: QuotaBatch = {
      key: this.key,
      calls: flight.length === 1 ? [flight[0]!.call] : flight.map(({ call }) => call),
      sender,
      number: nextNumber(),
      madeAt: Date.now(),
      operationTtlMs,
      isShard: this.isShard,
    };
    let unanswered = false;
    try {
      const budgetMs = Math.max(...flight.map(({ endAt }) => endAt)) - performance.now();
      const replies = await withRetries(backend, { budgetMs }, async (timeoutMs) => {
        // nobody is left to be told: what is not known now never will be
        if (flight.every(({ settled }) => settled)) throw this.deserted();
        this.mayBeApplied = true;
        try {
          return await backend.quotas.carryOut(batch, timeoutMs);
        } catch (error) {
          unanswered ||= !isStoreUnavailable(error) || error.outcome === 'unknown';
          this.mayBeApplied = unanswered;
          throw error;
        }
      });
      for (let at = 0; at < flight.length; at++) this.settle(flight[at]!, replies[at]!);
    } catch (error) {
      for (const waiting of flight) this.fail(waiting, ownError(error as Error));
    }
  }

  private settle(waiting: Waiting, reply: QuotaReply): void {
    if (waiting.settled) return;
    waiting.settled = true;
    waiting.stopListening?.();
    waiting.resolve(reply);
  }

  private fail(waiting: Waiting, error: StoreUnavailableError): void {
    if (waiting.settled) return;
    waiting.settled = true;
    waiting.stopListening?.();
    waiting.reject(error);
  }

  /** A caller goes before the answer came. */
  private leave(waiting: Waiting, error: (outcome: StoreOutcome) => StoreUnavailableError): void {
    const place = this.queue.indexOf(waiting);
    if (place >= 0) this.queue.splice(place, 1);
    this.fail(waiting, error(place < 0 && this.mayBeApplied ? 'unknown' : 'notApplied'));
  }

  /** One timer for all who wait: the first in line is the first to leave. */
  private watch(endAt: number): void {
    const delayMs = Math.min(Math.max(endAt - performance.now(), 1), 2 ** 31 - 1);
    this.timer = outsideCallChain(() => setTimeout(() => this.dismissLate(), delayMs).unref());
  }

  private dismissLate(): void {
    this.timer = undefined;
    const now = performance.now();
    const present = [...(this.flight ?? []), ...this.queue].filter(({ settled }) => !settled);
    let next = Infinity;
    for (const waiting of present) {
      if (waiting.endAt <= now) this.leave(waiting, (outcome) => this.lateError(outcome));
      else next = Math.min(next, waiting.endAt);
    }
    if (next < Infinity) this.watch(next);
  }

  private lateError(outcome: StoreOutcome): StoreUnavailableError {
    return this.error(`the store did not answer in time${known(outcome)}`, outcome, true);
  }

  private abortedError(signal: AbortSignal, outcome: StoreOutcome): StoreUnavailableError {
    return this.error(`given up by its signal${known(outcome)}`, outcome, false, signal.reason);
  }

  private deserted(): StoreUnavailableError {
    return this.error('all callers have left', 'notApplied', false);
  }

  private error(
    what: string,
    outcome: StoreOutcome,
    retryable: boolean,
    cause?: unknown,
  ): StoreUnavailableError {
    return new StoreUnavailableError(`The quota ${JSON.stringify(this.key)}: ${what}.`, {
      keys: this.key,
      outcome,
      retryable,
      ...(cause === undefined ? {} : { cause }),
    });
  }
}

const known = (outcome: StoreOutcome): string =>
  outcome === 'unknown'
    ? ', so the outcome is unknown: it may have been carried out'
    : '; nothing was carried out';

/** An error object for each caller: an application may add to what it catches. */
function ownError(error: Error): StoreUnavailableError {
  if (!isStoreUnavailable(error)) {
    return new StoreUnavailableError(error.message, { cause: error, outcome: 'unknown' });
  }
  const { message, keys, cause, outcome, retryable } = error;
  return new StoreUnavailableError(message, {
    keys,
    outcome,
    retryable,
    ...(cause === undefined ? {} : { cause }),
  });
}
