import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { chownSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { findPostgres } from './ensure-postgres.cjs';
import { freePort } from './free-port.js';

const START_LIMIT_MS = 60_000;

/** The user `nobody`: Postgres refuses to run as root, and needs no user of its own. */
const NOBODY = 65_534;

/**
 * Ends the server and takes its folder ($0) away as soon as our end of its input closes, however this process ends
 * (SIGKILL too): no server outlives its test.
 */
const GUARD = '"$@" & server=$!; cat >/dev/null; kill -QUIT $server 2>/dev/null; wait; rm -rf "$0"';

/** Nothing that a test writes has to survive a power cut. */
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  max_connections: '200',
};

/** A real Postgres of its own for a test: on a free port, in a temporary folder, never as root. */
export class PostgresServer {
  private databases = 0;
  private log = '';
  private readonly exited: Promise<void>;

  private constructor(
    readonly port: number,
    private readonly guard: ChildProcess,
  ) {
    guard.stderr?.on('data', (chunk: Buffer) => (this.log = (this.log + chunk.toString()).slice(-4_000)));
    guard.stdin?.on('error', () => undefined);
    this.exited = new Promise((resolve) => guard.once('close', () => resolve()));
  }

  static async start(): Promise<PostgresServer> {
    const bin = findPostgres();
    if (!bin) throw new Error('There is no postgres: run the tests by npm test, which provides one.');
    for (let attempt = 1; ; attempt++) {
      const server = await PostgresServer.launch(bin);
      try {
        await server.answers();
        return server;
      } catch (error) {
        await server.stop();
        // somebody else may have taken the free port in between
        if (attempt === 5 || !/in use/i.test(server.log))
          throw new Error(`postgres did not start: ${String(error)}\n${server.log}`, { cause: error });
      }
    }
  }

  private static async launch(bin: string): Promise<PostgresServer> {
    const folder = mkdtempSync(join(tmpdir(), 'postgres-test-'));
    const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
    if (user.uid !== undefined) chownSync(folder, NOBODY, NOBODY);
    const data = join(folder, 'data');
    const made = ['-D', data, '-U', 'postgres', '--auth=trust', '--no-sync', '-E', 'UTF8', '--locale=C'];
    await promisify(execFile)(join(bin, 'initdb'), made, { ...user, cwd: folder });
    const port = await freePort();
    const settings = Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const args = [join(bin, 'postgres'), '-D', data, '-k', folder, '-p', String(port), ...settings];
    const guard = spawn('sh', ['-c', GUARD, folder, ...args], {
      ...user,
      cwd: folder,
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    return new PostgresServer(port, guard);
  }

  /** The URL of a new, empty database. */
  async createDatabase(): Promise<string> {
    const name = `test_${(this.databases += 1)}`;
    const client = await this.connected();
    try {
      await client.query(`CREATE DATABASE ${name}`);
    } finally {
      await client.end();
    }
    return this.url(name);
  }

  /** Ends the server, whoever is still connected. May be called again. */
  async stop(): Promise<void> {
    this.guard.stdin?.destroy();
    await this.exited;
  }

  private url(database: string): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${database}`;
  }

  private async answers(): Promise<void> {
    const giveUpAt = Date.now() + START_LIMIT_MS;
    for (;;) {
      try {
        return await (await this.connected()).end();
      } catch (error) {
        if (Date.now() > giveUpAt || this.log.includes('FATAL:  could not')) throw error;
        await sleep(50);
      }
    }
  }

  private async connected(): Promise<Client> {
    const client = new Client({ connectionString: this.url('postgres'), connectionTimeoutMillis: 10_000 });
    // The server is ended under its clients on purpose.
    client.on('error', () => undefined);
    await client.connect();
    return client;
  }
}
