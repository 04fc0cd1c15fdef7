import { setTimeout as sleep } from 'node:timers/promises';
import { Kysely, type Transaction } from 'kysely';
import { reasonOf } from '../reason-of.js';
import { isConflict, isDuplicate } from './database-errors.js';
import { dialectOf, embeddedDialect } from './dialect.js';
import { migrate } from './migrations.js';
import type { Schema } from './schema.js';

const MOST_TRIES = 10;

export interface DatabaseSettings {
  /** `postgres://…` or `file:…`; goes before `file`. */
  url?: string;
  /** The embedded database's file. Several processes may open the same one. */
  file?: string;
}

/** The one way to the database: the same queries run on the embedded file and on Postgres. */
export class Database {
  private constructor(
    private readonly db: Kysely<Schema>,
    readonly description: string,
  ) {}

  /** Opens the database and brings its schema up to date. */
  static async open({ url, file = '.data/shop.db' }: DatabaseSettings): Promise<Database> {
    const { dialect, description } = url ? dialectOf(url) : embeddedDialect(file);
    const database = new Database(new Kysely<Schema>({ dialect }), description);
    // Two processes that start at once both try: one migrates, the other finds it done.
    try {
      await database.retried(
        () => migrate(database.db),
        (error) => isConflict(error) || isDuplicate(error),
      );
    } catch (error) {
      await database.close();
      throw new Error(`The ${description} cannot be used: ${reasonOf(error)}`, { cause: error });
    }
    return database;
  }

  /** Runs one statement, or several that need not be seen together. */
  run<T>(queries: (db: Kysely<Schema>) => Promise<T>): Promise<T> {
    return this.retried(() => queries(this.db));
  }

  /** Runs `queries` as one transaction. They must not do anything but query: they may be run again. */
  transaction<T>(queries: (trx: Transaction<Schema>) => Promise<T>): Promise<T> {
    return this.retried(() => this.db.transaction().execute(queries));
  }

  /** To be called by whoever opened it, after the application has closed: sections that drain still write. */
  close(): Promise<void> {
    return this.db.destroy();
  }

  /** Of two transactions in each other's way, Postgres ends one and wants it run again. */
  private async retried<T>(attempt: () => Promise<T>, mayTryAgain = isConflict): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await attempt();
      } catch (error) {
        if (!mayTryAgain(error) || tries === MOST_TRIES) throw error;
        // Jitter: what met once would otherwise meet again.
        await sleep(Math.random() * 10 * tries);
      }
    }
  }
}
