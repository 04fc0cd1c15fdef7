/**
 * Finds a Redis server for the tests, or installs one where that may be done (root with apt). It never skips:
 * without a server the tests fail with one line that says what to install.
 */
const { execFileSync, spawnSync } = require('node:child_process');
const {
  accessSync,
  constants,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} = require('node:fs');
const { tmpdir } = require('node:os');
const { delimiter, join } = require('node:path');

const NAMES = ['redis-server', 'valkey-server'];
const INSTALL_LIMIT_MS = 300_000;

/** The server's binary: `REDIS_SERVER`, else `redis-server`, else `valkey-server` on the PATH; or undefined. */
function findRedis() {
  const told = process.env.REDIS_SERVER;
  if (told) {
    if (isExecutable(told)) return told;
    throw new Error(`REDIS_SERVER names ${told}, which cannot be run: correct or unset it.`);
  }
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  for (const name of NAMES) {
    const found = folders.map((folder) => join(folder, name)).find(isExecutable);
    if (found) return found;
  }
  return undefined;
}

/** As {@link findRedis}, but installs the server when there is none. */
function ensureRedis() {
  const found = findRedis();
  if (found) return found;
  const release = lockInstallation();
  try {
    // another run may have installed it while this one waited
    return findRedis() ?? install();
  } finally {
    release();
  }
}

function install() {
  const advice =
    'The tests need a Redis server: install redis-server (or valkey-server), or set REDIS_SERVER.';
  const apt = spawnSync('apt-get', ['--version']);
  if (process.getuid?.() !== 0 || apt.status !== 0) throw new Error(advice);
  // a package's own start script must not start a system service: policy-rc.d forbids it,
  // RUNLEVEL does for those that do not ask it
  const policy = '/usr/sbin/policy-rc.d';
  const ownPolicy = !isExecutable(policy);
  try {
    if (ownPolicy) writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
    for (const args of [
      ['update', '-q'],
      ['install', '-q', '-y', '--no-install-recommends', 'redis-server'],
    ]) {
      execFileSync('apt-get', args, { env, stdio: ['ignore', 'ignore', 'pipe'], timeout: INSTALL_LIMIT_MS });
    }
  } catch (error) {
    throw new Error(
      `${advice} (apt-get could not: ${String(error.stderr ?? error.message)
        .trim()
        .split('\n')
        .pop()})`,
      { cause: error },
    );
  } finally {
    if (ownPolicy) rmSync(policy, { force: true });
  }
  const found = findRedis();
  if (!found) throw new Error(advice);
  return found;
}

/** One installation at a time on this machine; a lock that a dead process left is taken over. */
function lockInstallation() {
  const lock = join(tmpdir(), 'nestjs-redis-lock-install');
  const giveUpAt = Date.now() + INSTALL_LIMIT_MS;
  for (;;) {
    try {
      mkdirSync(lock);
      writeFileSync(join(lock, 'pid'), String(process.pid));
      return () => rmSync(lock, { recursive: true, force: true });
    } catch (error) {
      if (error.code !== 'EEXIST' || Date.now() > giveUpAt) throw error;
      if (isAbandoned(lock)) rmSync(lock, { recursive: true, force: true });
      else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    }
  }
}

function isAbandoned(lock) {
  try {
    process.kill(Number(readFileSync(join(lock, 'pid'), 'utf8')), 0);
    return false;
  } catch (error) {
    if (error.code === 'EPERM') return false;
    if (error.code === 'ESRCH') return true;
    // no pid yet: its owner is about to write it, or died in between
    try {
      return Date.now() - statSync(lock).mtimeMs > 10_000;
    } catch {
      return false;
    }
  }
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

module.exports = { ensureRedis, findRedis };
