import { sql } from 'kysely';
import type { Database } from '../database/database.js';
import type { Gate, Operation } from '../gates/gate.js';

/** What the database knows of a gate, all of one moment. */
export interface GateView {
  granted: number;
  orders: number;
  journal: number;
  booked: number;
  /** Grows with every booking: two views with the same number have nothing between them. */
  bookings: number;
}

type Row = Record<keyof GateView, number | string>;

/** One statement, so that its numbers belong together in both databases, without a lock on any row. */
export async function viewGate(database: Database, { key, kind, id }: Gate): Promise<GateView> {
  const orders =
    kind === 'stock'
      ? sql`select coalesce(sum(quantity), 0) from orders where sku = ${id} and status <> 'cancelled'`
      : sql`select count(*) from orders where merchant_id = ${id} and (status = 'paid' or (status = 'pending'
          and exists (select 1 from journal where order_id = orders.id and gate = ${key})))`;
  const own =
    kind === 'stock'
      ? sql`(select stock as granted, sold as booked from inventory where sku = ${id})`
      : sql`(select granted, spent as booked from merchants where id = ${id})`;
  const { rows } = await database.run((db) =>
    sql<Row>`select granted, booked, (${orders}) as orders,
      (select coalesce(sum(amount), 0) from journal where gate = ${key}) as journal,
      (select count(*) from journal where gate = ${key})
        + (select count(*) from grants where gate = ${key}) as bookings
      from ${own} as own`.execute(db),
  );
  const row = rows[0]!;
  // Postgres gives sums and counts as text.
  return {
    granted: Number(row.granted),
    orders: Number(row.orders),
    journal: Number(row.journal),
    booked: Number(row.booked),
    bookings: Number(row.bookings),
  };
}

/** What was taken from a gate for an order since a moment. */
export interface BookedOperation extends Operation {
  /** When it was booked as given back, if it was. */
  returnedAt: string | null;
}

export async function bookedOperations(
  database: Database,
  gate: string,
  since: string,
): Promise<BookedOperation[]> {
  const { rows } = await database.run((db) =>
    sql<BookedOperation>`
      select operation_id as "operationId", gate, order_id as "orderId", amount, (
        select created_at from journal as back where back.operation_id = 'return:' || journal.operation_id
      ) as "returnedAt"
      from journal where gate = ${gate} and amount > 0 and created_at >= ${since}
      order by created_at, operation_id`.execute(db),
  );
  return rows;
}

/** Orders that are paid without exactly one payment of their amount, and payments of orders that are not paid. */
export async function wrongPayments(
  database: Database,
): Promise<{ id: string; status: string; paid: number }[]> {
  const { rows } = await database.run((db) =>
    sql<{ id: string; status: string; paid: number | string }>`
      select orders.id, orders.status, coalesce(sum(payments.amount), 0) as paid
      from orders left join payments on payments.order_id = orders.id
      group by orders.id, orders.status, orders.amount
      having coalesce(sum(payments.amount), 0)
        <> case when orders.status = 'paid' then orders.amount else 0 end
        or count(payments.transaction_id) > 1
      order by orders.id`.execute(db),
  );
  return rows.map(({ id, status, paid }) => ({ id, status, paid: Number(paid) }));
}
