import { Injectable } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { IdempotencyKeyError } from '../errors.js';
import { resolveExecuteOptions } from '../idempotency/execute-options.js';
import { redactionBy } from '../idempotency/before-store.js';
import { canonicalHash } from '../idempotency/canonical-hash.js';
import type { IdempotencyEngine } from '../idempotency/idempotency-engine.js';
import {
  IDEMPOTENCY_DEFAULTS,
  type ResolvedIdempotencyDefaults,
} from '../idempotency/idempotency-options.js';
import type {
  ExecuteOptions,
  IdempotencyCounters,
  IdempotencyEvent,
  IdempotencyRecordInfo,
} from '../idempotency/idempotency.js';
import { keyRecord } from '../idempotency/record-key.js';
import { runOnce, type RunInfo } from '../idempotency/run-once.js';
import type { HandlerState, RunProgress } from '../idempotency/settlement.js';
import { ValuePort } from './idempotent-value-port.js';

/**
 * Idempotency for queues, cron jobs and services: the engine of `@Idempotent`, by business key. A key names the
 * same record here and in `@Idempotent({ key })`.
 */
@Injectable()
export class IdempotencyService {
  readonly #engine: IdempotencyEngine;
  readonly #defaults: ResolvedIdempotencyDefaults;

  /** @internal Made by the module. */
  constructor(engine: IdempotencyEngine, defaults: ResolvedIdempotencyDefaults = IDEMPOTENCY_DEFAULTS) {
    this.#engine = engine;
    this.#defaults = defaults;
  }

  /**
   * Runs the task once for the key, or gives the stored value of the run that was.
   *
   * The value is stored as JSON: a repeat gets a Date as its ISO text, a Buffer as a Buffer, undefined as
   * undefined. A value that JSON cannot express (a bigint, a circular reference) goes to the first caller only;
   * repeats get an `IdempotencyUnreplayableError`, and the task is not run again.
   *
   * @param key a business key, e.g. `wechat:4200001234`, written as a template fills it (`:` in a value is `%3A`).
   *   One that several owners may use needs a `scope`.
   * @param task gets the number of the attempt (above 1: an earlier run died, its side effects may stand) and a
   *   signal that aborts when the lease is lost.
   * @throws what the task throws, untouched: `onError` says what becomes of the record.
   * @throws IdempotencyInProgressError the first one still runs (after `waitTimeout`, with `onConcurrent: 'wait'`).
   * @throws IdempotencyMismatchError the key was used with another `fingerprint`.
   * @throws IdempotencyUnreplayableError it was done before, but its value could not be kept.
   * @throws IdempotencyKeyError the key is no non-empty string.
   * @throws StoreUnavailableError the store was not reached; the task did not run.
   */
  async execute<T>(
    key: string,
    task: (run: { attempt: number; signal: AbortSignal }) => T,
    options?: ExecuteOptions,
  ): Promise<{ value: Awaited<T>; replayed: boolean; attempt: number }> {
    if (typeof key !== 'string' || key === '') {
      throw new IdempotencyKeyError('An idempotency key is a non-empty string.');
    }
    const { scope, fingerprint, onError, isSuccess, beforeStore, ...terms } = resolveExecuteOptions(
      options,
      this.#defaults,
    );
    const call = {
      ...terms,
      recordKey: keyRecord(this.#engine.keyPrefix, { key, ...(scope === undefined ? {} : { scope }) }),
      fingerprint: fingerprint === undefined ? null : await canonicalHash(fingerprint),
    };
    const { maxBodyBytes } = this.#defaults;
    const rules = {
      onError: typeof onError === 'function' ? (error: unknown) => onError(error, NO_CALL) : onError,
      ...(isSuccess && { isSuccess }),
      ...(beforeStore && { redact: redactionBy((value) => beforeStore(value, NO_CALL), maxBodyBytes) }),
    };
    const port = new ValuePort(maxBodyBytes);
    const result = await runOnce(this.#engine, call, rules, port, (info) => progressOf(task, info));
    return { ...result, value: result.value as Awaited<T> };
  }

  /**
   * Looks a record up.
   *
   * @param keyOrRecordKey a business key (of a record without scope), or a record key as events and logs show it.
   */
  inspect(keyOrRecordKey: string): Promise<IdempotencyRecordInfo | null> {
    return this.#engine.inspect(keyOrRecordKey);
  }

  /**
   * Deletes a record, so that the next request with its key runs. For operators.
   *
   * @param keyOrRecordKey as for {@link inspect}.
   * @returns false when there was none.
   */
  forget(keyOrRecordKey: string): Promise<boolean> {
    return this.#engine.forget(keyOrRecordKey);
  }

  /**
   * The records of the store, by SCAN (never KEYS), a few at a time: stop when you have seen enough. One that comes or
   * goes meanwhile may be missed, and one may come twice while the store grows.
   *
   * @param pattern a glob on what stands behind `idem:` in the record key: `key:*` are those of business keys,
   *   `POST:/orders*` those of a route. Default: all.
   */
  list(pattern?: string): AsyncIterable<IdempotencyRecordInfo> {
    return this.#engine.list(pattern);
  }

  /** How often each event happened in this process since its start. */
  get counters(): IdempotencyCounters {
    return this.#engine.counters;
  }

  /** What happens to records, for metrics and logs. */
  get events(): Observable<IdempotencyEvent> {
    return this.#engine.events;
  }
}

/** What an `onError` function is given where there is no call of Nest's. */
const NO_CALL = Object.freeze({
  args: [],
  params: {},
  query: {},
  body: undefined,
  headers: {},
  user: undefined,
  data: undefined,
});

/** A task as the engine watches it: nothing stands around it, so its outcome is the run's. */
function progressOf<T>(task: (run: RunInfo) => T, info: RunInfo): RunProgress {
  let state: HandlerState = 'running';
  let outcome: { value?: unknown; error?: unknown } = {};
  const run = async (): Promise<unknown> => {
    try {
      const value = await task(info);
      state = 'succeeded';
      outcome = { value };
      return value;
    } catch (error) {
      state = 'failed';
      outcome = { error };
      throw error;
    }
  };
  const value = run();
  return {
    value,
    handler: () => state,
    settled: value.then(
      () => undefined,
      () => undefined,
    ),
    outcome: () => outcome,
  };
}
