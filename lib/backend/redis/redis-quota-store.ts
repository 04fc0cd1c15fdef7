import type {
  GiveBackReply,
  OperationRef,
  QuotaBatch,
  QuotaReply,
  QuotaStore,
  ShardReply,
  ShardState,
} from '../backend.js';
import type { CommandArgument, Connection } from './connection.js';
import { callsKey } from './keys.js';
import {
  deductField,
  isPlain,
  mixedArguments,
  mixedReply,
  plainArguments,
  plainReplies,
  shardField,
  type PlainDeduction,
} from './quota-batch.js';
import {
  badQuota,
  NO_INTEGER,
  OVERTAKEN,
  QuotaScriptRunner,
  TOO_LARGE,
  type Answer,
} from './quota-script-runner.js';
import type { ScriptRunner } from './script-runner.js';
import type { Script } from './script.js';
import { carryOutScript } from './scripts/carry-out.lua.js';
import { deductAtScript } from './scripts/deduct-at.lua.js';
import { giveBackAtScript } from './scripts/give-back-at.lua.js';
import { initShardScript } from './scripts/init-shard.lua.js';
import { moveOperationScript } from './scripts/move-operation.lua.js';
import { takePartScript } from './scripts/take-part.lua.js';
import { takeScript } from './scripts/take.lua.js';

/** A sender's last batch is looked for in the period in which the batch was made. */
const CALLS_PERIOD_MS = 120_000;

/** Quotas in Redis: a hash each, with the field `remain`; carried-out operations in hashes beside it. */
export class RedisQuotaStore implements QuotaStore {
  private readonly scripts: QuotaScriptRunner;

  constructor(
    private readonly connection: Connection,
    private readonly runner: ScriptRunner,
  ) {
    this.scripts = new QuotaScriptRunner(runner);
  }

  async init(key: string, amount: number, timeoutMs: number): Promise<boolean> {
    const args = [this.nameOf(key), 'remain', amount];
    return (await this.runner.command('hsetnx', args, { timeoutMs, about: key })) === 1;
  }

  carryOut(batch: QuotaBatch, timeoutMs: number): Promise<QuotaReply[]> {
    return isPlain(batch.calls)
      ? this.take(batch, batch.calls, timeoutMs)
      : this.carryOutMixed(batch, timeoutMs);
  }

  async remaining(key: string, timeoutMs: number): Promise<number | null> {
    const args = [this.nameOf(key), 'remain'];
    const text = (await this.runner.command('hget', args, { timeoutMs, about: key })) as string | null;
    return text === null ? null : wholeNumber(key, text);
  }

  async initShard(key: string, plan: string, share: number, timeoutMs: number): Promise<string> {
    const [code, standing] = (await this.runner.run(initShardScript, [this.nameOf(key)], [plan, share], {
      timeoutMs,
      about: key,
    })) as Answer;
    if (code < 0) throw badQuota(key, unusable(code));
    return standing!;
  }

  async look(key: string, timeoutMs: number): Promise<ShardState | null> {
    const args = [this.nameOf(key), 'remain', 'version', 'plan'];
    const [remain, version, plan] = (await this.runner.command('hmget', args, {
      timeoutMs,
      about: key,
    })) as Array<string | null>;
    if (remain == null) return null;
    return {
      remaining: wholeNumber(key, remain),
      version: Number(version ?? 0),
      ...(plan == null ? {} : { plan }),
    };
  }

  async move(
    key: string,
    operation: OperationRef,
    from: string,
    to: string,
    timeoutMs: number,
  ): Promise<string> {
    const args = [deductField(operation.operationId), from, to];
    const [, standing] = await this.ofOperation(moveOperationScript, key, operation, args, timeoutMs);
    return standing!;
  }

  async deductAt(
    key: string,
    operation: OperationRef,
    generation: number,
    amount: number,
    timeoutMs: number,
  ): Promise<ShardReply> {
    const args = [shardField(operation.operationId), generation, String(amount)];
    const [code, one, two] = await this.ofOperation(deductAtScript, key, operation, args, timeoutMs);
    const [first, second] = [Number(one), Number(two)];
    switch (code) {
      case 1:
      case 2:
        return { status: 'granted', amount: first, remaining: second, replayed: code === 2 };
      case 0:
        return { status: 'exceeded', remaining: first };
      case -4:
        return { status: 'otherAmount', amount: first };
      case -5:
        return { status: 'refunded', amount: first };
      default:
        return { status: 'unusable', why: unusable(code) };
    }
  }

  async takePart(
    key: string,
    operation: OperationRef,
    generation: number,
    wanted: number,
    timeoutMs: number,
  ): Promise<number | null> {
    const args = [shardField(operation.operationId), generation, String(wanted)];
    const [code, held] = await this.ofOperation(takePartScript, key, operation, args, timeoutMs);
    if (code < 0) throw badQuota(key, unusable(code));
    return code === 0 ? null : Number(held);
  }

  async giveBackAt(
    key: string,
    operation: OperationRef,
    generation: number,
    timeoutMs: number,
  ): Promise<GiveBackReply> {
    const args = [shardField(operation.operationId), generation];
    const [code, one, two] = await this.ofOperation(giveBackAtScript, key, operation, args, timeoutMs);
    const [amount, remaining] = [Number(one), Number(two)];
    switch (code) {
      case 1:
      case 2:
        return { status: 'givenBack', amount, remaining, replayed: code === 2 };
      case 3:
        return { status: 'partReturned', amount };
      case 0:
        return { status: 'nothing' };
      default:
        return { status: 'unusable', why: unusable(code) };
    }
  }

  private async take(
    { key, sender, number, madeAt }: QuotaBatch,
    calls: readonly PlainDeduction[],
    timeoutMs: number,
  ): Promise<QuotaReply[]> {
    const name = this.nameOf(key);
    const [code, before] = (await this.runner.run(
      takeScript,
      [name, callsKey(name, Math.floor(madeAt / CALLS_PERIOD_MS))],
      [sender, number, ...plainArguments(calls)],
      { timeoutMs, about: key },
    )) as Answer;
    if (code > 0) return plainReplies(calls, Number(before), code === 2);
    const reply: QuotaReply = code === -1 ? { status: 'notFound' } : undone(code);
    return calls.map(() => reply);
  }

  private async carryOutMixed(batch: QuotaBatch, timeoutMs: number): Promise<QuotaReply[]> {
    const { key, calls, operationTtlMs, madeAt } = batch;
    const name = this.nameOf(key);
    const moreKeys = [callsKey(name, Math.floor(madeAt / CALLS_PERIOD_MS))];
    const request = { key, name, operationTtlMs, moreKeys, args: mixedArguments(batch) };
    const [code, text] = await this.scripts.run(carryOutScript, request, timeoutMs);
    if (code < 0) return calls.map(() => undone(code));
    const answers = text!.split(' ');
    return calls.map((call, at) => mixedReply(call, answers[at]!));
  }

  private ofOperation(
    script: Script,
    key: string,
    { operationTtlMs }: OperationRef,
    args: readonly CommandArgument[],
    timeoutMs: number,
  ): Promise<Answer> {
    return this.scripts.run(script, { key, name: this.nameOf(key), operationTtlMs, args }, timeoutMs);
  }

  private nameOf(key: string): string {
    return this.connection.keyPrefix + key;
  }
}

function undone(code: number): QuotaReply {
  return code === OVERTAKEN ? { status: 'overtaken' } : { status: 'unusable', why: unusable(code) };
}

function unusable(code: number): 'noInteger' | 'tooLarge' {
  if (code === NO_INTEGER) return 'noInteger';
  if (code === TOO_LARGE) return 'tooLarge';
  throw new TypeError(`The script answered ${code}.`);
}

function wholeNumber(key: string, text: string): number {
  const number = /^-?\d+$/.test(text) ? Number(text) : NaN;
  if (!Number.isSafeInteger(number)) throw badQuota(key, 'noInteger');
  return number;
}
