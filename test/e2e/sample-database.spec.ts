import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Database } from '../../sample-app/src/database/database.js';

describe('the sample: the embedded database', () => {
  let folder: string;
  let file: string;
  const open: Database[] = [];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'sample-db-'));
    file = join(folder, 'sample.db');
  });

  afterEach(async () => {
    await Promise.all(open.splice(0).map((database) => database.close()));
    rmSync(folder, { recursive: true, force: true });
  });

  async function opened(): Promise<Database> {
    const database = await Database.open({ file });
    open.push(database);
    return database;
  }

  const addArticle = (database: Database, sku: string): Promise<unknown> =>
    database.run(async (db) => {
      await db
        .insertInto('merchants')
        .values({ id: 'm', granted: 1, opened_at: null })
        .onConflict((known) => known.doNothing())
        .execute();
      return db
        .insertInto('inventory')
        .values({ sku, merchant_id: 'm', price: 1, stock: 10, opened_at: null })
        .execute();
    });

  const sell = (database: Database, sku: string): Promise<{ sold: number } | undefined> =>
    database.run((db) =>
      db
        .updateTable('inventory')
        .set((row) => ({ sold: row('sold', '+', 1) }))
        .where('sku', '=', sku)
        .returning('sold')
        .executeTakeFirst(),
    );

  it('is migrated once, however many open it at the same moment', async () => {
    const all = await Promise.all([opened(), opened(), opened()]);
    await addArticle(all[0], 'a');
    for (const database of all) expect(await sell(database, 'a')).toBeDefined();
  });

  it('keeps the event loop running, and loses no write, while another connection holds the write lock', async () => {
    const holder = await opened();
    const waiting = await opened();
    await addArticle(holder, 'a');

    let freed = false;
    const held = holder.transaction(async (trx) => {
      await trx.updateTable('inventory').set({ price: 2 }).where('sku', '=', 'a').execute();
      await sleep(400);
      freed = true;
    });
    let turns = 0;
    const ticking = setInterval(() => (turns += 1), 1);
    const answers = await Promise.all([
      ...Array.from({ length: 5 }, () => sell(waiting, 'a')),
      waiting.transaction(async (trx) => {
        expect(freed).toBe(true);
        await trx.updateTable('inventory').set({ stock: 20 }).where('sku', '=', 'a').execute();
      }),
    ]);
    clearInterval(ticking);
    await held;

    expect(turns).toBeGreaterThan(3);
    expect(answers.slice(0, 5)).toEqual([1, 2, 3, 4, 5].map((sold) => ({ sold })));
    // What was written after the wait is committed: a connection of its own sees it, and may write.
    const fresh = await opened();
    expect(await sell(fresh, 'a')).toEqual({ sold: 6 });
    const row = await fresh.run((db) => db.selectFrom('inventory').selectAll().executeTakeFirst());
    expect(row).toMatchObject({ sku: 'a', price: 2, stock: 20, sold: 6 });
  });

  it('undoes a transaction that fails, and goes on', async () => {
    const database = await opened();
    await addArticle(database, 'a');
    await expect(
      database.transaction(async (trx) => {
        await trx.updateTable('inventory').set({ sold: 5 }).where('sku', '=', 'a').execute();
        await trx.updateTable('inventory').set({ sold: 11 }).where('sku', '=', 'a').execute();
      }),
    ).rejects.toThrow(/inventory_never_oversold/);
    expect(await sell(database, 'a')).toEqual({ sold: 1 });
  });

  it('says in one line why it cannot be used', async () => {
    await expect(Database.open({ url: 'nonsense' })).rejects.toThrow(/^DATABASE_URL is not a URL$/);
    await expect(Database.open({ url: 'mysql://127.0.0.1/sample' })).rejects.toThrow(
      /^DATABASE_URL begins with postgres:\/\/, postgresql:\/\/ or file:, not with mysql:$/,
    );
    await expect(Database.open({ url: 'postgres://127.0.0.1:1/sample' })).rejects.toThrow(
      /^The Postgres 127\.0\.0\.1:1\/sample cannot be used: .*ECONNREFUSED.*$/,
    );
  });
});
