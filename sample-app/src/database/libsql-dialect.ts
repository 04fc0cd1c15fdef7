import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Client, InArgs, Transaction } from '@libsql/client';
import {
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type CompiledQuery,
  type DatabaseConnection,
  type DatabaseIntrospector,
  type Dialect,
  type DialectAdapter,
  type Driver,
  type Kysely,
  type QueryCompiler,
  type QueryResult,
} from 'kysely';
import { isBusy } from './database-errors.js';

/** How long a statement is repeated while another process writes. */
const BUSY_BUDGET_MS = 10_000;

/** Kysely on an embedded libsql client: SQLite's SQL, one libsql transaction per Kysely transaction. */
export class LibsqlDialect implements Dialect {
  constructor(private readonly client: Client) {}

  createDriver(): Driver {
    return new LibsqlDriver(this.client);
  }

  createAdapter(): DialectAdapter {
    return new SqliteAdapter();
  }

  createQueryCompiler(): QueryCompiler {
    return new SqliteQueryCompiler();
  }

  createIntrospector(db: Kysely<unknown>): DatabaseIntrospector {
    return new SqliteIntrospector(db);
  }
}

/**
 * One connection at a time. SQLite has one writer and its calls run on the event loop's thread, so several at once
 * would gain nothing; but several that meet a busy database would all wait for it, one after the other, on that
 * thread, and stop the whole process, the renewal of its locks included.
 */
class LibsqlDriver implements Driver {
  private last: Promise<void> = Promise.resolve();

  constructor(private readonly client: Client) {}

  async init(): Promise<void> {
    // Write-ahead log: readers never wait for the writer. It is a property of the file and stays.
    await whileBusy(this.client, () => this.client.execute('PRAGMA journal_mode = WAL'));
  }

  async acquireConnection(): Promise<LibsqlConnection> {
    const before = this.last;
    const { promise, resolve } = withResolvers();
    this.last = promise;
    await before;
    return new LibsqlConnection(this.client, resolve);
  }

  async beginTransaction(connection: LibsqlConnection): Promise<void> {
    await connection.begin();
  }

  async commitTransaction(connection: LibsqlConnection): Promise<void> {
    await connection.transaction?.commit();
  }

  async rollbackTransaction(connection: LibsqlConnection): Promise<void> {
    await connection.transaction?.rollback();
  }

  async releaseConnection(connection: LibsqlConnection): Promise<void> {
    connection.transaction?.close();
    // A turn of the event loop between two users: timers, sockets and other processes get theirs.
    await nextTurn();
    connection.handOn();
  }

  async destroy(): Promise<void> {
    this.client.close();
  }
}

class LibsqlConnection implements DatabaseConnection {
  transaction?: Transaction;

  constructor(
    private readonly client: Client,
    readonly handOn: () => void,
  ) {}

  async begin(): Promise<void> {
    // 'write' takes the write lock at once: a transaction that starts by reading could fail half-way.
    this.transaction = await whileBusy(this.client, () => this.client.transaction('write'));
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const statement = { sql, args: parameters as InArgs };
    // Inside a transaction the write lock is ours: nothing can be busy there.
    const result = this.transaction
      ? await this.transaction.execute(statement)
      : await whileBusy(this.client, () => this.client.execute(statement));
    return { rows: result.rows as R[], numAffectedRows: BigInt(result.rowsAffected) };
  }

  streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('The embedded database does not stream');
  }
}

/** Repeats what another process's write was in the way of: nothing of it was applied. */
async function whileBusy<T>(client: Client, attempt: () => Promise<T>): Promise<T> {
  const giveUpAt = Date.now() + BUSY_BUDGET_MS;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!isBusy(error) || Date.now() > giveUpAt) throw error;
      // The client leaves a statement that was refused as busy unfinished on its connection, and whatever is
      // written on that one afterwards is never committed: it must not be used again.
      await client.reconnect();
      // Jitter: writers that met once would otherwise meet again.
      await sleep(1 + Math.random() * 4);
    }
  }
}

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve!: () => void;
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}
