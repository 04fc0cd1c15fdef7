import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis, type RedisOptions } from 'ioredis';
import { findRedis } from './ensure-redis.cjs';
import { freePort } from './free-port.js';

const START_LIMIT_MS = 20_000;
const LOG_LINES_KEPT = 200;

/**
 * The shell between us and the server ends it as soon as our end of its input closes, however this process
 * ends (SIGKILL too): no server outlives its test.
 */
const GUARD = '"$@" & server=$!; echo "server $server"; cat >/dev/null; kill -9 $server 2>/dev/null; wait';

export interface RedisServerOptions {
  /** Lines of redis.conf, e.g. `{ maxmemory: '10mb' }`. */
  config?: Record<string, string>;
  /** Default: a free one. */
  port?: number;
}

/** A real Redis of its own for a test: on a free port, in a temporary folder, with nothing persisted. */
export class RedisServer {
  readonly url: string;
  private readonly clients = new Set<Redis>();
  private guard?: ChildProcess;
  private pid?: number;
  private folder?: string;
  private exited: Promise<void> = Promise.resolve();

  private constructor(
    readonly port: number,
    private readonly config: Record<string, string>,
  ) {
    this.url = `redis://127.0.0.1:${port}`;
  }

  static async start(options: RedisServerOptions = {}): Promise<RedisServer> {
    for (let attempt = 1; ; attempt++) {
      const server = new RedisServer(options.port ?? (await freePort()), options.config ?? {});
      try {
        await server.launch();
        return server;
      } catch (error) {
        // somebody else may have taken the free port in between
        if (options.port !== undefined || attempt === 5 || !/in use/i.test(String(error))) throw error;
      }
    }
  }

  /** A client of this server, disconnected when the server stops. */
  client(options: RedisOptions = {}): Redis {
    const client = new Redis({ port: this.port, host: '127.0.0.1', ...options });
    client.on('error', () => undefined);
    this.clients.add(client);
    return client;
  }

  /** Ends the server and its clients. May be called again. */
  async stop(): Promise<void> {
    for (const client of this.clients) client.disconnect();
    this.clients.clear();
    await this.kill();
  }

  /** SIGKILL; its clients stay and see the connection break. */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    this.guard?.stdin?.destroy();
    await this.exited;
    if (this.folder) rmSync(this.folder, { recursive: true, force: true });
    this.folder = undefined;
    this.guard = undefined;
    this.pid = undefined;
  }

  /** SIGSTOP: connections stay open, nothing is answered. */
  pause(): void {
    this.signal('SIGSTOP');
  }

  /** SIGCONT. */
  resume(): void {
    this.signal('SIGCONT');
  }

  /** Kills it and starts it again on the same port, empty. */
  async restart(): Promise<void> {
    await this.kill();
    await this.launch();
  }

  private signal(signal: NodeJS.Signals): void {
    if (this.pid === undefined) return;
    try {
      process.kill(this.pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  private launch(): Promise<void> {
    const binary = findRedis();
    if (!binary) throw new Error('There is no redis-server: run the tests by npm test, which provides one.');
    this.folder = mkdtempSync(join(tmpdir(), 'redis-test-'));
    const settings = {
      port: String(this.port),
      bind: '127.0.0.1',
      dir: this.folder,
      save: '',
      appendonly: 'no',
      ...this.config,
    };
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
    const guard = spawn('sh', ['-c', GUARD, 'sh', binary, ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.guard = guard;
    guard.stdin.on('error', () => undefined);
    this.exited = new Promise((resolve) => guard.once('close', () => resolve()));

    return new Promise((resolve, reject) => {
      const log: string[] = [];
      const fail = (why: string): void => {
        clearTimeout(timer);
        void this.kill().then(() => reject(new Error(`redis-server ${why}:\n${log.join('\n')}`)));
      };
      const timer = setTimeout(() => fail(`did not start within ${START_LIMIT_MS} ms`), START_LIMIT_MS);
      const read = (chunk: Buffer): void => {
        for (const line of chunk.toString().split('\n').filter(Boolean)) {
          if (log.push(line) > LOG_LINES_KEPT) log.shift();
          const pid = /^server (\d+)$/.exec(line)?.[1];
          if (pid) this.pid = Number(pid);
          if (/Ready to accept connections/.test(line)) {
            clearTimeout(timer);
            resolve();
          }
          if (/Failed listening|FATAL CONFIG|Can't|Bad directive/i.test(line)) fail('did not start');
        }
      };
      guard.stdout.on('data', read);
      guard.stderr.on('data', read);
      guard.once('error', (error) => fail(error.message));
    });
  }
}
