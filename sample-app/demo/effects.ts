import { Database, type DatabaseSettings } from '../src/database/database.js';
import type { Scenario } from './scenario.js';

/** What took effect, as the database tells it. */
export interface Effects {
  ordersPaid: number;
  /** Orders that more than one payment was booked for. */
  paidTwice: number;
  /** How often the callback's handler ran. */
  handlerRuns: number;
  /** Units that orders were made for. */
  sold: number;
  /** What the constraints and the fence had to stop, by its reference. */
  refused: { reference: string; reason: string }[];
}

/** Reads through a connection of its own: what the senders and the processes believe does not count. */
export async function readEffects(settings: DatabaseSettings, { run, sku }: Scenario): Promise<Effects> {
  const database = await Database.open(settings);
  try {
    return await database.run(async (db) => {
      const ofThisRun = `order-${run}-%`;
      const paid = await db
        .selectFrom('orders')
        .select('id')
        .where('id', 'like', ofThisRun)
        .where('status', '=', 'paid')
        .execute();
      const payments = await db
        .selectFrom('payments')
        .select('order_id')
        .where('order_id', 'like', ofThisRun)
        .execute();
      const runs = await db
        .selectFrom('callback_runs')
        .select('id')
        .where('order_id', 'like', ofThisRun)
        .execute();
      const units = await db.selectFrom('stock_journal').select('quantity').where('sku', '=', sku).execute();
      const refused = await db
        .selectFrom('refused_writes')
        .select(['reference', 'reason'])
        .where('reference', 'like', `%-${run}-%`)
        .execute();
      return {
        ordersPaid: paid.length,
        paidTwice: countRepeated(payments.map(({ order_id }) => order_id)),
        handlerRuns: runs.length,
        sold: units.reduce((sum, { quantity }) => sum + quantity, 0),
        refused,
      };
    });
  } finally {
    await database.close();
  }
}

function countRepeated(ids: string[]): number {
  const seen = new Set<string>();
  return new Set(ids.filter((id) => seen.size === seen.add(id).size)).size;
}
