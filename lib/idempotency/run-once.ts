import { IdempotencyUnreplayableError } from '../errors.js';
import type { Redacted } from './before-store.js';
import type { BeginCall } from './beginning.js';
import type { IdempotencyEngine } from './idempotency-engine.js';
import { ON_ERROR } from './idempotency-options.js';
import type { OnError } from './idempotency.js';
import type { OwnedRun } from './owned-run.js';
import { judgeFailure, judgeLate, type RunProgress, type Verdict } from './settlement.js';
import { tombstone, type ReplayableReply, type StoredError, type StoredReply } from './stored-reply.js';

/** What the options say about the outcome of a run. */
export interface RunRules {
  onError: OnError | ((error: unknown) => OnError);
  isSuccess?: (value: unknown, status: number) => boolean;
  /** What is kept instead of a reply. */
  redact?: (reply: StoredReply) => Promise<Redacted>;
}

/** How replies are stored and given again in one kind of call. */
export interface ReplyPort {
  /** The status that the reply to this value has; 200 where there is none. */
  status(value: unknown): number;
  /** What is stored for a value, and the value that goes to the first caller (storing it may have read it). */
  store(value: unknown): { reply: StoredReply; value: unknown };
  /** What is stored for an error; undefined when its reply cannot be kept. */
  storeError(error: unknown): StoredError | undefined;
  /** Gives a stored reply again: returns its value, or throws its error. */
  replay(reply: ReplayableReply): unknown;
}

/** What a run is told about itself. */
export interface RunInfo {
  /** 1 is the first run; more means that an earlier one died or was held. */
  attempt: number;
  /** Aborts when the lease is lost: somebody else may run beside this one. */
  signal: AbortSignal;
}

export interface OnceResult {
  value: unknown;
  replayed: boolean;
  attempt: number;
}

/**
 * Runs a call once for its key, or gives the stored reply of the one that ran.
 *
 * @param start begins the run; called at most once.
 * @throws what the run throws, untouched; the stored error of the first run; `IdempotencyUnreplayableError` when
 *   it was done before and its reply was not kept; whatever {@link IdempotencyEngine.begin} throws.
 */
export async function runOnce(
  engine: IdempotencyEngine,
  call: BeginCall,
  rules: RunRules,
  port: ReplyPort,
  start: (info: RunInfo) => RunProgress,
): Promise<OnceResult> {
  const begun = await engine.begin(call);
  switch (begun.kind) {
    case 'replay':
      if (begun.reply === null) throw new IdempotencyUnreplayableError(call.recordKey, begun.error);
      return { value: port.replay(begun.reply), replayed: true, attempt: begun.attempt };
    case 'bypass':
      return {
        value: await start({ attempt: 1, signal: new AbortController().signal }).value,
        replayed: false,
        attempt: 1,
      };
    case 'run':
      return new Settlement(begun.run, rules, port).of(start);
  }
}

/** Ends the record of one run as its outcome demands. */
class Settlement {
  constructor(
    private readonly run: OwnedRun,
    private readonly rules: RunRules,
    private readonly port: ReplyPort,
  ) {}

  async of(start: (info: RunInfo) => RunProgress): Promise<OnceResult> {
    const { attempt } = this.run;
    let progress: RunProgress | undefined;
    let value: unknown;
    try {
      // not copied: its signal is made for those who ask
      progress = start(this.run);
      value = await progress.value;
    } catch (error) {
      const winner = await this.#failed(progress, error);
      if (winner) return { value: this.port.replay(winner), replayed: true, attempt };
      throw error;
    }
    return { replayed: false, attempt, ...(await this.#answered(value)) };
  }

  /** The chain gave a value: what counts as done is kept, everything else is treated as an error. */
  async #answered(value: unknown): Promise<{ value: unknown; replayed?: boolean }> {
    let success: boolean;
    try {
      success = this.#isSuccess(value);
    } catch (error) {
      // raised after the work was done
      this.run.hold();
      throw error;
    }
    if (!success) {
      const verdict = this.#onError(value);
      if (verdict !== 'store') {
        await this.#end(verdict, value);
        return { value };
      }
    }
    const stored = this.port.store(value);
    const winner = await this.run.complete(stored.reply, this.rules.redact);
    if (!winner) return { value: stored.value };
    return { value: this.port.replay(winner), replayed: true };
  }

  /** @returns another owner's reply that is the stored one. */
  async #failed(progress: RunProgress | undefined, error: unknown): Promise<ReplayableReply | undefined> {
    const handler = progress?.handler() ?? 'notCalled';
    if (progress && handler === 'running') {
      // renewed until the method settles: no second run may begin beside it
      void progress.settled.then(() => this.#settledLate(progress, error));
      return undefined;
    }
    const errors = [error, progress?.outcome().error];
    return this.#end(
      judgeFailure(handler, errors, () => this.#onError(error)),
      error,
    );
  }

  async #settledLate(progress: RunProgress, error: unknown): Promise<void> {
    const own = progress.outcome().error;
    await this.#end(
      judgeLate(progress.handler(), [error, own], () => this.#onError(own)),
      own,
    );
  }

  async #end(verdict: Verdict, error: unknown): Promise<ReplayableReply | undefined> {
    switch (verdict) {
      case 'release':
        await this.run.release();
        return undefined;
      case 'hold':
        this.run.hold();
        return undefined;
      case 'store':
        return this.run.complete(
          this.port.storeError(error) ?? tombstone('an error that cannot be given again'),
          this.rules.redact,
        );
      case 'tombstone':
        return this.run.complete(tombstone('the work was done, but its reply was lost'));
    }
  }

  #isSuccess(value: unknown): boolean {
    const status = this.port.status(value);
    return status >= 200 && status < 400 && (this.rules.isSuccess?.(value, status) ?? true);
  }

  /** A function of the application's that fails, or says something else, must not free the key. */
  #onError(error: unknown): OnError {
    const { onError } = this.rules;
    if (typeof onError !== 'function') return onError;
    try {
      const verdict = onError(error);
      return ON_ERROR.has(verdict) ? verdict : 'hold';
    } catch {
      return 'hold';
    }
  }
}
