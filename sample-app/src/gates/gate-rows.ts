import { sql, type Kysely, type SelectQueryBuilder } from 'kysely';
import type { Schema } from '../database/schema.js';
import type { Gate } from './gate.js';

/** The articles' stocks as gates. */
export const stocks = (db: Kysely<Schema>): SelectQueryBuilder<Schema, 'inventory', Gate> =>
  db
    .selectFrom('inventory')
    .select([
      sql<string>`'stock:' || sku`.as('key'),
      sql<'stock'>`'stock'`.as('kind'),
      'sku as id',
      'stock as granted',
      'sold as taken',
      'opened_at as openedAt',
    ])
    .orderBy('sku');

/** The merchants' prepaid quotas as gates. */
export const quotas = (db: Kysely<Schema>): SelectQueryBuilder<Schema, 'merchants', Gate> =>
  db
    .selectFrom('merchants')
    .select([
      sql<string>`'quota:' || id`.as('key'),
      sql<'quota'>`'quota'`.as('kind'),
      'id',
      'granted',
      'spent as taken',
      'opened_at as openedAt',
    ])
    .orderBy('id');
