import { StoreUnavailableError } from '../../errors.js';
import type { CommandArgument } from './connection.js';
import { operationsKey } from './keys.js';
import type { ScriptRunner } from './script-runner.js';
import type { Script } from './script.js';

/** A script's code, and the texts behind it. */
export type Answer = [code: number, first?: string, second?: string];

export const NO_INTEGER = -2;
const OTHER_PERIOD = -3;
export const TOO_LARGE = -6;
export const OVERTAKEN = -7;

export interface OperationsRequest {
  /** The quota, as the caller knows it and as Redis does. */
  key: string;
  name: string;
  operationTtlMs: number;
  /** Keys behind those of the operations. */
  moreKeys?: readonly string[];
  args: readonly CommandArgument[];
}

/** Runs scripts that keep operations by period: in the period that Redis is in, which our clock guesses and Redis corrects. */
export class QuotaScriptRunner {
  /** Redis TIME less our clock, once Redis has told that they differ too much. */
  private clockOffsetMs = 0;

  constructor(private readonly runner: ScriptRunner) {}

  async run(script: Script, request: OperationsRequest, timeoutMs: number): Promise<Answer> {
    const { key, name, moreKeys = [], args } = request;
    const periodMs = Math.max(1, Math.ceil(request.operationTtlMs));
    const endAt = performance.now() + timeoutMs;
    for (;;) {
      const period = Math.floor((Date.now() + this.clockOffsetMs) / periodMs);
      const keyOf = (of: number): string => operationsKey(name, periodMs, of);
      const answer = (await this.runner.run(
        script,
        [name, keyOf(period - 1), keyOf(period), keyOf(period + 1), ...moreKeys],
        [periodMs, period, ...args],
        { timeoutMs: Math.max(endAt - performance.now(), 1), about: key },
      )) as Answer;
      if (answer[0] !== OTHER_PERIOD) return answer;
      this.clockOffsetMs = Number(answer[1]) - Date.now();
      if (performance.now() >= endAt) {
        throw new StoreUnavailableError(`The quota ${JSON.stringify(key)}: the time ran out.`, {
          keys: key,
          retryable: true,
        });
      }
    }
  }
}

/** What a quota with such a number is told about. */
export function badQuota(key: string, why: 'noInteger' | 'tooLarge'): StoreUnavailableError {
  return new StoreUnavailableError(`The quota ${JSON.stringify(key)}: ${UNUSABLE[why]}.`, { keys: key });
}

const UNUSABLE = {
  noInteger:
    'its field "remain" holds no integer up to 2^53-1: another program wrote it; correct it with HSET',
  tooLarge: 'it would hold more than 2^53-1, which cannot be counted exactly',
};
