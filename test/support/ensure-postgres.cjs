/**
 * Finds a Postgres server for the tests, or installs one where that may be done (root with apt). It never skips:
 * without a server the tests fail with one line that says what to install.
 */
const { readdirSync } = require('node:fs');
const { delimiter, join } = require('node:path');
const { findOrInstall, isExecutable } = require('./apt-install.cjs');

/** Where Debian has them: not on the PATH, and each version in a folder of its own. */
const DEBIAN = '/usr/lib/postgresql';

/** The folder of `initdb` and `postgres`: `POSTGRES_BIN`, else on the PATH, else Debian's newest; or undefined. */
function findPostgres() {
  const told = process.env.POSTGRES_BIN;
  if (told) {
    if (isComplete(told)) return told;
    throw new Error(`POSTGRES_BIN names ${told}, which has no initdb and postgres: correct or unset it.`);
  }
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return [...folders, ...debianFolders()].find(isComplete);
}

/** As {@link findPostgres}, but installs the server when there is none. */
function ensurePostgres() {
  return findOrInstall({
    find: findPostgres,
    packageName: 'postgresql',
    advice:
      'The tests need a Postgres server: install postgresql, or set POSTGRES_BIN to the folder of its binaries.',
  });
}

const isComplete = (folder) => ['initdb', 'postgres'].every((name) => isExecutable(join(folder, name)));

function debianFolders() {
  try {
    const versions = readdirSync(DEBIAN).filter((name) => /^\d+$/.test(name));
    return versions.sort((a, b) => Number(b) - Number(a)).map((version) => join(DEBIAN, version, 'bin'));
  } catch {
    return [];
  }
}

module.exports = { ensurePostgres, findPostgres };
