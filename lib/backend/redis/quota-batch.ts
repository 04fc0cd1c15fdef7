import type { QuotaBatch, QuotaCall, QuotaReply } from '../backend.js';
import type { CommandArgument } from './connection.js';

/** Deductions without ids: they have a script of their own. */
export type PlainDeduction = Extract<QuotaCall, { amount: number }>;

export function isPlain(calls: readonly QuotaCall[]): calls is readonly PlainDeduction[] {
  return calls.every((call) => call.kind === 'deduct' && call.operationId === undefined);
}

/** More than any quota holds: a sum that is no exact number counts as this. */
const BEYOND = 2 ** 53;

/** The arguments of the script for plain deductions, behind the sender and the number. */
export function plainArguments(calls: readonly PlainDeduction[]): [sum: number, amounts: string] {
  if (calls.length === 1) return [calls[0]!.amount, ''];
  let sum = 0;
  let amounts = '';
  for (const { amount } of calls) {
    sum += amount;
    amounts += `${amount} `;
  }
  return [Math.min(sum, BEYOND), amounts];
}

/** The same steps as the script's: what each got follows from the number that stood there before. */
export function plainReplies(
  calls: readonly PlainDeduction[],
  before: number,
  replayed: boolean,
): QuotaReply[] {
  let remaining = before;
  return calls.map(({ amount }) => {
    if (remaining < amount) return { status: 'exceeded', remaining };
    remaining -= amount;
    return { status: 'granted', amount, remaining, replayed };
  });
}

/** The arguments of the script for calls of every kind, behind the period. */
export function mixedArguments({ calls, isShard, sender, number }: QuotaBatch): CommandArgument[] {
  let kinds = '';
  const amounts: number[] = [];
  const fields: string[] = [];
  for (const call of calls) {
    if (call.kind === 'refund') {
      kinds += 'R';
      amounts.push(0);
      fields.push(deductField(call.operationId));
      continue;
    }
    const letter = call.kind === 'deduct' ? 'd' : 'g';
    amounts.push(call.amount);
    if (call.operationId === undefined) {
      kinds += letter;
      continue;
    }
    kinds += letter.toUpperCase();
    fields.push(call.kind === 'deduct' ? deductField(call.operationId) : `grant:${call.operationId}`);
  }
  return [isShard ? 1 : 0, sender, number, kinds, ...amounts, ...fields];
}

/** The field of an operation's record at its home, or in a quota that is not spread. */
export const deductField = (operationId: string): string => `deduct:${operationId}`;
/** The field of what another shard, or the home as one of them, knows of it. */
export const shardField = (operationId: string): string => `shard:${operationId}`;

/** Reads one answer of the script for calls of every kind. */
export function mixedReply(call: QuotaCall, answer: string): QuotaReply {
  const rest = answer.slice(1);
  const [first, second] = rest.split(':').map(Number) as [number, number];
  const amount = call.kind === 'refund' ? 0 : call.amount;
  switch (answer[0]) {
    case 'g':
    case 'k':
      return { status: 'granted', amount, remaining: first, replayed: answer[0] === 'k' };
    case 'p':
      return { status: 'granted', amount: first, remaining: second, replayed: true };
    case 'x':
      return { status: 'exceeded', remaining: first };
    case 'n':
      return { status: 'notFound' };
    case 'a':
      return { status: 'otherAmount', amount: first };
    case 'r':
      return { status: 'refunded', amount: first };
    case 'b':
    case 'q':
      return { status: 'givenBack', amount: first, remaining: second, replayed: answer[0] === 'q' };
    case 'u':
      return { status: 'unknown' };
    case 'e':
      return { status: 'elsewhere', place: rest };
    case 'i':
      return { status: 'unusable', why: 'noInteger' };
    case 'o':
      return { status: 'unusable', why: 'tooLarge' };
    default:
      throw new TypeError(`The script answered ${JSON.stringify(answer)}.`);
  }
}
