import { spawn } from 'node:child_process';
import { accessSync, constants, existsSync, mkdtempSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pingRedis, saveRedis } from './ping-redis.js';

/** A Redis of our own: on a free port, for as long as this process runs. */
export interface LocalRedisServer {
  url: string;
  binary: string;
  stop(): Promise<void>;
  /** Writes a snapshot; nothing else is ever written to disk. */
  save(): Promise<void>;
  /** kill -9, and a start from the last snapshot: what came after it is lost. */
  crash(): Promise<void>;
}

const START_TIMEOUT_MS = 5_000;

/** $0 is the server's folder, the rest its command line. */
const KEEPER =
  '"$@" & read -r end; if [ "$end" = crash ]; then kill -9 "$!"; wait; else kill "$!"; wait; rm -rf "$0"; fi';

/** Looks in `REDIS_SERVER`, then for redis-server and valkey-server on the PATH. */
export function findRedisServer(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const told = env.REDIS_SERVER;
  // a bare name is looked up on the PATH by the shell
  if (told?.includes('/') && !existsSync(told)) throw new Error(`REDIS_SERVER ${told} does not exist`);
  if (told) return told;
  const folders = (env.PATH ?? '').split(delimiter).filter(Boolean);
  return ['redis-server', 'valkey-server']
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .find(isExecutable);
}

export async function startLocalRedis(binary: string): Promise<LocalRedisServer> {
  const folder = mkdtempSync(join(tmpdir(), 'sample-redis-'));
  const port = await freePort();
  const url = `redis://127.0.0.1:${port}`;
  const keep = (): Keeper => startKeeper(folder, [binary, ...settings(port, folder)]);
  let keeper = keep();
  const stop = (): Promise<void> => keeper.end();
  try {
    await answers(url);
  } catch (error) {
    await stop();
    throw new Error(`${binary} was found but does not start`, { cause: error });
  }
  return {
    url,
    binary,
    stop,
    save: () => saveRedis(url),
    crash: async () => {
      await keeper.end('crash\n');
      keeper = keep();
      await answers(url);
    },
  };
}

interface Keeper {
  end(how?: string): Promise<void>;
}

/**
 * The shell waits for the end of its standard input, which comes however this process ends, kill -9 included: no Redis
 * is left behind. Detached, so that Ctrl-C does not stop Redis while the last sections still release.
 */
function startKeeper(folder: string, command: string[]): Keeper {
  const child = spawn('sh', ['-c', KEEPER, folder, ...command], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', () => resolve());
  });
  child.unref();
  (child.stdin as Socket).unref();
  return {
    end: async (how = '') => {
      child.ref();
      child.stdin.end(how);
      await ended;
    },
  };
}

const settings = (port: number, folder: string): string[] => [
  '--port',
  String(port),
  '--bind',
  '127.0.0.1',
  '--save',
  '',
  '--appendonly',
  'no',
  '--dir',
  folder,
];

async function answers(url: string): Promise<void> {
  const giveUpAt = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    try {
      return await pingRedis(url);
    } catch (error) {
      if (Date.now() > giveUpAt) throw error;
      await sleep(25);
    }
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A port that nobody listens on at this moment. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}
