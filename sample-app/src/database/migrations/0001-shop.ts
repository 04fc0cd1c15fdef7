import { sql, type Kysely, type Migration } from 'kysely';
import type { Schema } from '../schema.js';

const ID = 'varchar(64)';
const TIME = 'varchar(32)';

/**
 * The floor. Locks and idempotency records make conflicts rare; these constraints make them harmless: whatever
 * happens to Redis, a transaction is booked once, an order is paid once, no unit is sold that is not there, and no
 * merchant spends more than was prepaid.
 */
export const shop: Migration = {
  async up(db: Kysely<Schema>) {
    await db.schema
      .createTable('merchants')
      .ifNotExists()
      .addColumn('id', ID, (column) => column.primaryKey())
      .addColumn('granted', 'integer', (column) => column.notNull())
      .addColumn('spent', 'integer', (column) => column.notNull().defaultTo(0))
      .addColumn('opened_at', TIME)
      .addCheckConstraint('merchants_never_overspent', sql`spent >= 0 and spent <= granted`)
      .execute();
    await db.schema
      .createTable('inventory')
      .ifNotExists()
      .addColumn('sku', ID, (column) => column.primaryKey())
      .addColumn('merchant_id', ID, (column) => column.notNull().references('merchants.id'))
      .addColumn('price', 'integer', (column) => column.notNull().check(sql`price > 0`))
      .addColumn('stock', 'integer', (column) => column.notNull())
      .addColumn('sold', 'integer', (column) => column.notNull().defaultTo(0))
      .addColumn('opened_at', TIME)
      .addCheckConstraint('inventory_never_oversold', sql`sold >= 0 and sold <= stock`)
      .execute();
    await db.schema
      .createTable('orders')
      .ifNotExists()
      .addColumn('id', ID, (column) => column.primaryKey())
      .addColumn('sku', ID, (column) => column.notNull().references('inventory.sku'))
      .addColumn('merchant_id', ID, (column) => column.notNull().references('merchants.id'))
      .addColumn('quantity', 'integer', (column) => column.notNull().check(sql`quantity > 0`))
      .addColumn('amount', 'integer', (column) => column.notNull().check(sql`amount > 0`))
      .addColumn('status', 'varchar(16)', (column) => column.notNull())
      // A fencing token is a time in microseconds: it needs 64 bits.
      .addColumn('fence', 'bigint', (column) => column.notNull().defaultTo(0))
      .addColumn('created_at', TIME, (column) => column.notNull())
      .addColumn('expires_at', TIME, (column) => column.notNull())
      .addColumn('paid_at', TIME)
      .addColumn('cancelled_at', TIME)
      .addCheckConstraint(
        'orders_in_one_state',
        sql`(status = 'pending' and paid_at is null and cancelled_at is null)
          or (status = 'paid' and paid_at is not null and cancelled_at is null)
          or (status = 'cancelled' and paid_at is null and cancelled_at is not null)`,
      )
      .execute();
    await db.schema
      .createTable('payments')
      .ifNotExists()
      .addColumn('transaction_id', 'varchar(128)', (column) => column.primaryKey())
      // Not unique: one order may one day be paid in parts. That it is paid once follows from the conditional
      // update of its row, in the same transaction as this insert.
      .addColumn('order_id', ID, (column) => column.notNull().references('orders.id'))
      .addColumn('provider', 'varchar(16)', (column) => column.notNull())
      .addColumn('amount', 'integer', (column) => column.notNull().check(sql`amount > 0`))
      .addColumn('fence', 'bigint', (column) => column.notNull())
      .addColumn('created_at', TIME, (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('grants')
      .ifNotExists()
      .addColumn('operation_id', 'varchar(300)', (column) => column.primaryKey())
      .addColumn('gate', 'varchar(128)', (column) => column.notNull())
      .addColumn('amount', 'integer', (column) => column.notNull().check(sql`amount > 0`))
      .addColumn('created_at', TIME, (column) => column.notNull())
      .addColumn('applied_at', TIME)
      .execute();
    await db.schema
      .createTable('journal')
      .ifNotExists()
      .addColumn('operation_id', 'varchar(300)', (column) => column.primaryKey())
      .addColumn('gate', 'varchar(128)', (column) => column.notNull())
      .addColumn('order_id', ID, (column) => column.notNull().references('orders.id'))
      .addColumn('amount', 'integer', (column) => column.notNull().check(sql`amount <> 0`))
      .addColumn('created_at', TIME, (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('callback_runs')
      .ifNotExists()
      .addColumn('id', ID, (column) => column.primaryKey())
      .addColumn('notification_id', 'varchar(128)', (column) => column.notNull())
      .addColumn('order_id', ID, (column) => column.notNull())
      .addColumn('created_at', TIME, (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('refused_writes')
      .ifNotExists()
      .addColumn('id', ID, (column) => column.primaryKey())
      .addColumn('reference', 'varchar(300)', (column) => column.notNull())
      .addColumn('reason', 'varchar(32)', (column) => column.notNull())
      .addColumn('created_at', TIME, (column) => column.notNull())
      .execute();
    for (const table of ['payments', 'journal'] as const) {
      await db.schema.createIndex(`${table}_order`).ifNotExists().on(table).column('order_id').execute();
    }
    await db.schema.createIndex('journal_gate').ifNotExists().on('journal').column('gate').execute();
    await db.schema
      .createIndex('orders_unpaid')
      .ifNotExists()
      .on('orders')
      .columns(['status', 'expires_at'])
      .execute();
  },
};
