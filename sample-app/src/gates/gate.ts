import { sql, type Transaction } from 'kysely';
import type { Schema } from '../database/schema.js';

/** A number that many push against: an article's stock, or a merchant's prepaid quota. */
export interface Gate {
  /** Its key in Redis, e.g. `stock:sku-1` or `quota:merchant-1`. */
  key: string;
  kind: GateKind;
  /** The article or the merchant. */
  id: string;
  /** What there was to take in all, by the database. */
  granted: number;
  /** What of it is booked as taken. */
  taken: number;
  /** See `opened_at` of the schema. */
  openedAt: string | null;
}

export type GateKind = 'stock' | 'quota';

/** Something taken from a gate for an order. */
export interface Operation {
  /** Names it for ever, in Redis and in the journal: the same id takes once and is booked once. */
  operationId: string;
  gate: string;
  orderId: string;
  amount: number;
}

export const stockGate = (sku: string): string => `stock:${sku}`;
export const quotaGate = (merchantId: string): string => `quota:${merchantId}`;

/**
 * What a merchant's id begins with whose quota is spread over several keys, so that no single Redis node of a Cluster
 * has to carry it. (On one Redis it gains nothing.)
 */
export const HOT_MERCHANT = 'hot-';
export const HOT_MERCHANT_SHARDS = 8;

/** @throws TypeError for a key that is no gate's. */
export function parseGate(key: string): { kind: GateKind; id: string } {
  const [, kind, id] = /^(stock|quota):(.+)$/s.exec(key) ?? [];
  if (kind === undefined || id === undefined) throw new TypeError(`${key} is no gate`);
  return { kind: kind as GateKind, id };
}

/** Books what Redis granted: to be called in the transaction that makes or changes the order. */
export function bookTaken(trx: Transaction<Schema>, operation: Operation): Promise<void> {
  return book(trx, operation);
}

/** Books that an operation is given back. Its journal row's primary key lets that happen once. */
export function bookReturned(trx: Transaction<Schema>, operation: Operation): Promise<void> {
  return book(trx, {
    ...operation,
    operationId: returnOf(operation.operationId),
    amount: -operation.amount,
  });
}

/**
 * Books an addition to what there is to take. Its row's primary key lets that happen once.
 *
 * @returns whether Redis still has to get it.
 */
export async function bookGrant(
  trx: Transaction<Schema>,
  { operationId, gate, amount }: Omit<Operation, 'orderId'>,
): Promise<boolean> {
  const { kind, id } = parseGate(gate);
  const added = await trx
    .insertInto('grants')
    .values({
      operation_id: operationId,
      gate,
      amount,
      created_at: new Date().toISOString(),
      applied_at: null,
    })
    .onConflict((known) => known.doNothing())
    .returning('operation_id')
    .executeTakeFirst();
  if (!added) {
    const known = await trx
      .selectFrom('grants')
      .select('applied_at')
      .where('operation_id', '=', operationId)
      .executeTakeFirstOrThrow();
    return known.applied_at === null;
  }
  if (kind === 'stock') {
    await trx
      .updateTable('inventory')
      .set({ stock: sql`stock + ${amount}` })
      .where('sku', '=', id)
      .execute();
  } else {
    await trx
      .updateTable('merchants')
      .set({ granted: sql`granted + ${amount}` })
      .where('id', '=', id)
      .execute();
  }
  return true;
}

export const returnOf = (operationId: string): string => `return:${operationId}`;

/** The count and the journal in one step: so they agree at every moment, and the CHECK on the count is the floor. */
async function book(
  trx: Transaction<Schema>,
  { operationId, gate, orderId, amount }: Operation,
): Promise<void> {
  const { kind, id } = parseGate(gate);
  // First: an operation that is booked already is told as that, and not as one that there is too little for.
  const row = {
    operation_id: operationId,
    gate,
    order_id: orderId,
    amount,
    created_at: new Date().toISOString(),
  };
  await trx.insertInto('journal').values(row).execute();
  if (kind === 'stock') {
    await trx
      .updateTable('inventory')
      .set({ sold: sql`sold + ${amount}` })
      .where('sku', '=', id)
      .execute();
  } else {
    await trx
      .updateTable('merchants')
      .set({ spent: sql`spent + ${amount}` })
      .where('id', '=', id)
      .execute();
  }
}
