import { Migrator, type Kysely } from 'kysely';
import { shop } from './migrations/0001-shop.js';
import { reconciliation } from './migrations/0002-reconciliation.js';
import type { Schema } from './schema.js';

/** In the order of their names. One that has been released is never changed again: a change is a new one. */
const MIGRATIONS = {
  '0001-shop': shop,
  '0002-reconciliation': reconciliation,
};

/** Brings the database to the newest schema; does nothing when it is there already. */
export async function migrate(db: Kysely<Schema>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => MIGRATIONS } });
  const { error } = await migrator.migrateToLatest();
  if (error) throw error;
}
