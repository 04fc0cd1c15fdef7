/**
 * Installs a Debian package for the tests, where that may be done: as root, with apt, one installation at a time on
 * this machine.
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
const { join } = require('node:path');

const INSTALL_LIMIT_MS = 300_000;

/** What `find` gives, after installing the package where it gives nothing; else throws the advice, in one line. */
function findOrInstall({ find, packageName, advice }) {
  const found = find();
  if (found) return found;
  const release = lockInstallation();
  try {
    // another run may have installed it while this one waited
    return find() ?? install(find, packageName, advice);
  } finally {
    release();
  }
}

function install(find, packageName, advice) {
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
      ['install', '-q', '-y', '--no-install-recommends', packageName],
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
  const found = find();
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

module.exports = { findOrInstall, isExecutable };
