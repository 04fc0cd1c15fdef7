import { spawn, spawnSync } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

/** Who runs the server when this process is root: Postgres refuses to. */
const NOBODY = 65_534;
const STARTS_WITHIN_MS = 20_000;

/**
 * A Postgres server of the benchmark's own: on a socket in a temporary folder, with its defaults.
 *
 * @typedef {object} PostgresServer
 * @property {string} url
 * @property {string} version
 * @property {() => Promise<void>} stop
 */

/** @returns {Promise<PostgresServer | undefined>} undefined where there are no `initdb` and `postgres` on the PATH */
export async function startPostgres() {
  const found = ['initdb', 'postgres'].every((binary) => spawnSync(binary, ['--version']).status === 0);
  if (!found) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'bench-postgres-'));
  const asNobody = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  if (asNobody.uid !== undefined) chownSync(folder, NOBODY, NOBODY);
  const data = join(folder, 'data');
  const made = spawnSync('initdb', ['-D', data, '-U', 'bench', '--auth=trust', '--no-sync'], {
    ...asNobody,
    cwd: folder,
    encoding: 'utf8',
  });
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const child = spawn('postgres', ['-D', data, '-k', folder, '-c', 'listen_addresses='], {
    ...asNobody,
    cwd: folder,
    stdio: 'ignore',
  });
  const gone = new Promise((resolve) => child.once('exit', resolve));
  const killNow = () => {
    child.kill('SIGQUIT');
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', killNow);

  const url = `postgres:///postgres?host=${encodeURIComponent(folder)}&user=bench`;
  const giveUpAt = performance.now() + STARTS_WITHIN_MS;
  for (;;) {
    const client = new Client(url);
    try {
      await client.connect();
      const { rows } = await client.query('SHOW server_version');
      await client.query('CREATE TABLE quota (key text PRIMARY KEY, remain bigint NOT NULL)');
      await client.query('CREATE TABLE operation (id text PRIMARY KEY, amount bigint NOT NULL)');
      await client.end();
      return {
        url,
        version: rows[0]?.server_version ?? 'unknown',
        async stop() {
          child.kill('SIGINT');
          await gone;
          process.removeListener('exit', killNow);
          rmSync(folder, { recursive: true, force: true });
        },
      };
    } catch (error) {
      if (performance.now() > giveUpAt) throw error;
      await sleep(100);
    }
  }
}
