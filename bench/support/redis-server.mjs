import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

/**
 * A Redis server of the benchmark's own, on a free port, without persistence.
 *
 * @typedef {object} BenchServer
 * @property {string} url
 * @property {number} port
 * @property {string} version
 * @property {() => Promise<void>} stop
 */

/** @returns {string} the binary to start: `REDIS_SERVER`, else `redis-server`, else `valkey-server` on the PATH. */
function findBinary() {
  const candidates = [process.env['REDIS_SERVER'], 'redis-server', 'valkey-server'];
  for (const candidate of candidates) {
    if (candidate && spawnSync(candidate, ['--version']).status === 0) return candidate;
  }
  throw new Error(
    'The benchmark needs redis-server (or valkey-server) on the PATH, or its path in REDIS_SERVER.',
  );
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}

/** @returns {Promise<BenchServer>} */
export async function startRedis() {
  const binary = findBinary();
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'bench-redis-'));
  const child = spawn(
    binary,
    ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no'],
    { stdio: 'ignore' },
  );
  const gone = new Promise((resolve) => child.once('exit', resolve));
  const killNow = () => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', killNow);
  // a signal alone would end this process without its exit handlers, and leave the server behind
  const leave = () => process.exit(130);
  process.once('SIGINT', leave).once('SIGTERM', leave);

  const probe = new Redis(port, '127.0.0.1', { lazyConnect: true, retryStrategy: () => 50 });
  // while the server starts, refused connections are what is expected
  probe.on('error', () => undefined);
  const info = await Promise.race([
    probe.info('server'),
    gone.then((code) => Promise.reject(new Error(`${binary} ended with code ${String(code)}.`))),
    sleep(10_000, undefined, { ref: false }).then(() =>
      Promise.reject(new Error(`${binary} did not answer within 10 s.`)),
    ),
  ]);
  probe.disconnect();

  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    version: /(?:redis|valkey)_version:(\S+)/.exec(info)?.[1] ?? 'unknown',
    async stop() {
      child.kill('SIGTERM');
      await gone;
      process
        .removeListener('exit', killNow)
        .removeListener('SIGINT', leave)
        .removeListener('SIGTERM', leave);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
