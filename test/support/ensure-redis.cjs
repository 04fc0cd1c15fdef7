/**
 * Finds a Redis server for the tests, or installs one where that may be done (root with apt). It never skips:
 * without a server the tests fail with one line that says what to install.
 */
const { delimiter, join } = require('node:path');
const { findOrInstall, isExecutable } = require('./apt-install.cjs');

const NAMES = ['redis-server', 'valkey-server'];

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
  return findOrInstall({
    find: findRedis,
    packageName: 'redis-server',
    advice: 'The tests need a Redis server: install redis-server (or valkey-server), or set REDIS_SERVER.',
  });
}

module.exports = { ensureRedis, findRedis };
