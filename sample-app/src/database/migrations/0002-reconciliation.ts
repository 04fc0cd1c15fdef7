import { sql, type Kysely, type Migration } from 'kysely';
import type { Schema } from '../schema.js';

/** One row per run of the reconciliation: its progress while it runs, its report when it is done. */
export const reconciliation: Migration = {
  async up(db: Kysely<Schema>) {
    await db.schema
      .createTable('reconciliations')
      .ifNotExists()
      // The run's fencing token: unique, and later runs have larger ones, whichever process ran them.
      .addColumn('id', 'bigint', (column) => column.primaryKey())
      .addColumn('step', 'varchar(128)', (column) => column.notNull())
      .addColumn('done', 'integer', (column) => column.notNull())
      .addColumn('total', 'integer', (column) => column.notNull())
      .addColumn('started_at', 'varchar(32)', (column) => column.notNull())
      .addColumn('finished_at', 'varchar(32)')
      .addColumn('report', 'text')
      .addCheckConstraint(
        'reconciliations_finished_with_report',
        sql`(finished_at is null) = (report is null)`,
      )
      .execute();
  },
};
