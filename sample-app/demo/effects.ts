import { Database, type DatabaseSettings } from '../src/database/database.js';
import { quotaGate, stockGate } from '../src/gates/gate.js';
import type { Scenario } from './scenario.js';

/** What took effect, as the database tells it. */
export interface Effects {
  ordersPaid: number;
  /** Orders that more than one payment was booked for. */
  paidTwice: number;
  /** How often the callback's handler ran. */
  handlerRuns: number;
  /** Units that orders have, without the cancelled ones. */
  sold: number;
  /** What the merchant was charged, by the merchant's row and by the journal. */
  quota: { granted: number; spent: number; journaled: number };
  /** What the constraints and the fence had to stop, by its reference. */
  refused: { reference: string; reason: string; created_at: string }[];
}

/** Reads through a connection of its own: what the senders and the processes believe does not count. */
export async function readEffects(
  settings: DatabaseSettings,
  { run, sku, merchantId }: Scenario,
): Promise<Effects> {
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
      const { granted, spent } = await db
        .selectFrom('merchants')
        .selectAll()
        .where('id', '=', merchantId)
        .executeTakeFirstOrThrow();
      const journaled = async (gate: string): Promise<number> => {
        const rows = await db.selectFrom('journal').select('amount').where('gate', '=', gate).execute();
        return rows.reduce((sum, { amount }) => sum + amount, 0);
      };
      const refused = await db
        .selectFrom('refused_writes')
        .select(['reference', 'reason', 'created_at'])
        .where('reference', 'like', `%-${run}-%`)
        .execute();
      return {
        ordersPaid: paid.length,
        paidTwice: countRepeated(payments.map(({ order_id }) => order_id)),
        handlerRuns: runs.length,
        sold: await journaled(stockGate(sku)),
        quota: { granted, spent, journaled: await journaled(quotaGate(merchantId)) },
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
