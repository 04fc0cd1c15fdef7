import { StoreUnavailableError } from '../../errors.js';
import type { OperationRef, QuotaReply, QuotaStore, RefundReply } from '../backend.js';
import type { Connection } from './connection.js';
import { callsKey, operationsKey } from './keys.js';
import type { ScriptRunner } from './script-runner.js';
import type { Script } from './script.js';
import { deductScript } from './scripts/deduct.lua.js';
import { grantScript } from './scripts/grant.lua.js';
import { refundScript } from './scripts/refund.lua.js';

/** How long a call without an operation id is known again, for the module's own retries. */
const CALL_PERIOD_MS = 120_000;

/** Where an operation is kept: which hashes, and under which field. */
interface OperationPlace {
  field: string;
  periodMs: number;
  keyOf: (period: number) => string;
}

type Answer = [code: number, first: number, second: number];

/** Quotas in Redis: a hash each, with the field `remain`; carried-out operations in hashes beside it. */
export class RedisQuotaStore implements QuotaStore {
  /** Redis TIME less our clock, once Redis has told that they differ too much. */
  private clockOffsetMs = 0;

  constructor(
    private readonly connection: Connection,
    private readonly runner: ScriptRunner,
  ) {}

  async init(key: string, amount: number, timeoutMs: number): Promise<boolean> {
    const args = [this.nameOf(key), 'remain', amount];
    return (await this.runner.command('hsetnx', args, { timeoutMs, about: key })) === 1;
  }

  async grant(key: string, amount: number, operation: OperationRef, timeoutMs: number): Promise<QuotaReply> {
    const place = this.place(key, 'grant', operation);
    return toQuotaReply(key, await this.run(grantScript, key, place, amount, timeoutMs));
  }

  async deduct(key: string, amount: number, operation: OperationRef, timeoutMs: number): Promise<QuotaReply> {
    const place = this.place(key, 'deduct', operation);
    return toQuotaReply(key, await this.run(deductScript, key, place, amount, timeoutMs));
  }

  async refund(
    key: string,
    operationId: string,
    operationTtlMs: number,
    timeoutMs: number,
  ): Promise<RefundReply> {
    const place = this.place(key, 'deduct', { operationId, operationTtlMs, callId: '' });
    const [code, amount, remaining] = await this.run(refundScript, key, place, 0, timeoutMs);
    if (code === 0 || code === -1) return { status: 'unknown' };
    if (code < 0) throw badQuota(key, code);
    return { status: 'refunded', amount, remaining, replayed: code === 2 };
  }

  async remaining(key: string, timeoutMs: number): Promise<number | null> {
    const text = (await this.runner.command('hget', [this.nameOf(key), 'remain'], {
      timeoutMs,
      about: key,
    })) as string | null;
    if (text === null) return null;
    const remaining = /^-?\d+$/.test(text) ? Number(text) : NaN;
    if (!Number.isSafeInteger(remaining)) throw badQuota(key, NOT_AN_INTEGER);
    return remaining;
  }

  /** Runs the script for the period that Redis is in, which our clock guesses and Redis corrects. */
  private async run(
    script: Script,
    key: string,
    { field, periodMs, keyOf }: OperationPlace,
    amount: number,
    timeoutMs: number,
  ): Promise<Answer> {
    const endAt = performance.now() + timeoutMs;
    for (;;) {
      const period = Math.floor((Date.now() + this.clockOffsetMs) / periodMs);
      const left = Math.max(endAt - performance.now(), 1);
      const [code, first, second] = (await this.runner.run(
        script,
        [this.nameOf(key), keyOf(period - 1), keyOf(period), keyOf(period + 1)],
        [field, periodMs, period, String(amount)],
        { timeoutMs: left, about: key },
      )) as [code: number, first?: string, second?: string];
      if (code !== OTHER_PERIOD) return [code, Number(first), Number(second)];
      this.clockOffsetMs = Number(first) - Date.now();
      if (performance.now() >= endAt) {
        throw new StoreUnavailableError(`The quota ${JSON.stringify(key)}: the time ran out.`, {
          keys: key,
          retryable: true,
        });
      }
    }
  }

  private place(key: string, kind: 'grant' | 'deduct', operation: OperationRef): OperationPlace {
    const name = this.nameOf(key);
    const { operationId, operationTtlMs, callId } = operation;
    if (operationId === undefined) {
      return {
        field: `${kind}:${callId}`,
        periodMs: CALL_PERIOD_MS,
        keyOf: (period) => callsKey(name, period),
      };
    }
    const periodMs = Math.max(1, Math.ceil(operationTtlMs));
    return {
      field: `${kind}:${operationId}`,
      periodMs,
      keyOf: (period) => operationsKey(name, periodMs, period),
    };
  }

  private nameOf(key: string): string {
    return this.connection.keyPrefix + key;
  }
}

const NOT_AN_INTEGER = -2;
const OTHER_PERIOD = -3;

function toQuotaReply(key: string, [code, first, second]: Answer): QuotaReply {
  switch (code) {
    case 1:
    case 2:
      return { status: 'granted', amount: first, remaining: second, replayed: code === 2 };
    case 0:
      return { status: 'exceeded', remaining: first };
    case -1:
      return { status: 'notFound' };
    case -4:
      return { status: 'otherAmount', amount: first };
    case -5:
      return { status: 'refunded', amount: first };
    default:
      throw badQuota(key, code);
  }
}

function badQuota(key: string, code: number): StoreUnavailableError {
  const why =
    code === NOT_AN_INTEGER
      ? 'its field "remain" holds no integer up to 2^53-1: another program wrote it; correct it with HSET'
      : 'it would hold more than 2^53-1, which cannot be counted exactly';
  return new StoreUnavailableError(`The quota ${JSON.stringify(key)}: ${why}.`, { keys: key });
}
