import { Migrator, sql, type Kysely, type Migration } from 'kysely';
import type { Schema } from './schema.js';

/**
 * The floor. Locks and idempotency records make conflicts rare; these constraints make them harmless: whatever
 * happens to Redis, a transaction is booked once, an order is paid once and no unit is sold that is not there.
 */
const createTables: Migration = {
  async up(db: Kysely<Schema>) {
    await db.schema
      .createTable('inventory')
      .ifNotExists()
      .addColumn('sku', 'varchar(64)', (column) => column.primaryKey())
      .addColumn('price', 'integer', (column) => column.notNull().check(sql`price > 0`))
      .addColumn('stock', 'integer', (column) => column.notNull())
      .addColumn('sold', 'integer', (column) => column.notNull().defaultTo(0))
      .addCheckConstraint('inventory_never_oversold', sql`sold >= 0 and sold <= stock`)
      .execute();
    await db.schema
      .createTable('orders')
      .ifNotExists()
      .addColumn('id', 'varchar(64)', (column) => column.primaryKey())
      .addColumn('sku', 'varchar(64)', (column) => column.notNull().references('inventory.sku'))
      .addColumn('quantity', 'integer', (column) => column.notNull().check(sql`quantity > 0`))
      .addColumn('amount', 'integer', (column) => column.notNull().check(sql`amount > 0`))
      .addColumn('status', 'varchar(16)', (column) =>
        column.notNull().check(sql`status in ('pending', 'paid')`),
      )
      // A fencing token is a time in microseconds: it needs 64 bits.
      .addColumn('fence', 'bigint', (column) => column.notNull().defaultTo(0))
      .addColumn('created_at', 'varchar(32)', (column) => column.notNull())
      .addColumn('paid_at', 'varchar(32)')
      .execute();
    await db.schema
      .createTable('payments')
      .ifNotExists()
      .addColumn('transaction_id', 'varchar(128)', (column) => column.primaryKey())
      // Not unique: one order may one day be paid in parts. That it is paid once follows from the conditional
      // update of its row, in the same transaction as this insert.
      .addColumn('order_id', 'varchar(64)', (column) => column.notNull().references('orders.id'))
      .addColumn('amount', 'integer', (column) => column.notNull())
      .addColumn('fence', 'bigint', (column) => column.notNull())
      .addColumn('created_at', 'varchar(32)', (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('stock_journal')
      .ifNotExists()
      .addColumn('operation_id', 'varchar(300)', (column) => column.primaryKey())
      .addColumn('sku', 'varchar(64)', (column) => column.notNull().references('inventory.sku'))
      .addColumn('order_id', 'varchar(64)', (column) => column.notNull().references('orders.id'))
      .addColumn('quantity', 'integer', (column) => column.notNull().check(sql`quantity > 0`))
      .addColumn('created_at', 'varchar(32)', (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('callback_runs')
      .ifNotExists()
      .addColumn('id', 'varchar(36)', (column) => column.primaryKey())
      .addColumn('notification_id', 'varchar(128)', (column) => column.notNull())
      .addColumn('order_id', 'varchar(64)', (column) => column.notNull())
      .addColumn('created_at', 'varchar(32)', (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('refused_writes')
      .ifNotExists()
      .addColumn('id', 'varchar(36)', (column) => column.primaryKey())
      .addColumn('reference', 'varchar(300)', (column) => column.notNull())
      .addColumn('reason', 'varchar(32)', (column) => column.notNull())
      .addColumn('created_at', 'varchar(32)', (column) => column.notNull())
      .execute();
    for (const table of ['payments', 'stock_journal'] as const) {
      await db.schema.createIndex(`${table}_order`).ifNotExists().on(table).column('order_id').execute();
    }
  },
};

/** Brings the database to the newest schema; does nothing when it is there already. */
export async function migrate(db: Kysely<Schema>): Promise<void> {
  const migrator = new Migrator({
    db,
    provider: { getMigrations: async () => ({ '0001-create-tables': createTables }) },
  });
  const { error } = await migrator.migrateToLatest();
  if (error) throw error;
}
