import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { createClient } from '@libsql/client';
import { PostgresDialect, type Dialect } from 'kysely';
import { Pool, types } from 'pg';
import { LibsqlDialect } from './libsql-dialect.js';

export interface DialectSource {
  dialect: Dialect;
  /** For the start-up line: no password in it. */
  description: string;
}

/**
 * How long the embedded database itself waits for another process's write. It does so on the event loop's thread,
 * so this is short, and {@link LibsqlDialect} asks again.
 */
const BUSY_TIMEOUT_MS = 50;

// bigint arrives as text by default. Here it holds fencing tokens, which are safe integers.
types.setTypeParser(types.builtins.INT8, Number);

/** @throws Error when the URL leads to a database that the sample does not know. */
export function dialectOf(url: string): DialectSource {
  if (!URL.canParse(url)) throw new Error('DATABASE_URL is not a URL');
  const { protocol } = new URL(url);
  if (protocol === 'postgres:' || protocol === 'postgresql:') return postgresDialect(url);
  // a URL has no relative path, yet file:sample.db is how one is written
  if (protocol === 'file:')
    return embeddedDialect(/^file:\//i.test(url) ? fileURLToPath(url) : url.slice('file:'.length));
  throw new Error(`DATABASE_URL begins with postgres://, postgresql:// or file:, not with ${protocol}`);
}

function postgresDialect(url: string): DialectSource {
  const { hostname, port, pathname } = new URL(url);
  const pool = new Pool({ connectionString: url, max: 20, connectionTimeoutMillis: 5_000 });
  // An idle connection that the server closes is replaced at the next query; unheard, the event ends the process.
  pool.on('error', () => undefined);
  return {
    dialect: new PostgresDialect({ pool }),
    description: `Postgres ${hostname}:${port || 5432}${pathname}`,
  };
}

export function embeddedDialect(file: string): DialectSource {
  const path = resolve(file);
  prepareFolder(dirname(path));
  const client = createClient({ url: pathToFileURL(path).href, timeout: BUSY_TIMEOUT_MS });
  return {
    dialect: new LibsqlDialect(client),
    description: `embedded SQLite file ${file}`,
  };
}

/** A folder that the sample makes for its file keeps itself out of git. */
function prepareFolder(folder: string): void {
  if (mkdirSync(folder, { recursive: true }) !== undefined)
    writeFileSync(resolve(folder, '.gitignore'), '*\n');
}
