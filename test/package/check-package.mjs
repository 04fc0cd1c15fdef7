import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pack } from './pack.mjs';

/**
 * Looks at the packed tarball as a consumer meets it: publint, attw (types of every entry point in every
 * resolution mode), the list of files, and that no emitted type names a package that a consumer may not have.
 */

const ROOT = resolve(import.meta.dirname, '../..');
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

/** @type {string[]} */
const faults = [];
const folder = mkdtempSync(join(tmpdir(), 'package-'));
try {
  const { tarball, files } = pack(folder);
  run('publint', ['--strict', tarball]);
  // node10 does not know "exports": the entry points beside the root cannot be found by it, in any package
  run('attw', ['--profile', 'node16', tarball]);

  const allowed =
    /^(package\.json|README\.md|LICENSE|CHANGELOG\.md|dist\/(cjs|esm)\/.+\.(js|d\.ts|js\.map)|dist\/esm\/package\.json)$/;
  const unexpected = files.filter((file) => !allowed.test(file));
  if (unexpected.length > 0) faults.push(`the tarball holds what nobody asked for: ${unexpected.join(', ')}`);
  for (const wanted of ['README.md', 'LICENSE', 'CHANGELOG.md', ...entryPoints(manifest.exports)]) {
    if (!files.includes(wanted)) faults.push(`the tarball lacks ${wanted}`);
  }

  const available = new Set([
    ...Object.keys(manifest.dependencies),
    ...Object.keys(manifest.peerDependencies).filter(
      (name) => !manifest.peerDependenciesMeta?.[name]?.optional,
    ),
  ]);
  for (const file of files.filter((name) => name.endsWith('.d.ts'))) {
    for (const name of packagesIn(readFileSync(join(ROOT, file), 'utf8'))) {
      if (!available.has(name)) faults.push(`${file} names ${name}, which a consumer may not have`);
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

if (faults.length > 0) {
  process.stderr.write(`${faults.map((fault) => `- ${fault}`).join('\n')}\nThe package check failed.\n`);
  process.exit(1);
}
process.stdout.write('The package is as it should be.\n');

/**
 * @param {string} tool
 * @param {string[]} args
 */
function run(tool, args) {
  const { status } = spawnSync(join(ROOT, 'node_modules/.bin', tool), args, {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (status !== 0) faults.push(`${tool} is not content`);
}

/**
 * Every file that `exports` names.
 *
 * @param {unknown} exports
 * @returns {string[]}
 */
function entryPoints(exports) {
  if (typeof exports === 'string') return [exports.replace(/^\.\//, '')];
  return Object.values(/** @type {object} */ (exports)).flatMap(entryPoints);
}

/**
 * The packages that a declaration file imports, relative files and Node's own modules left out.
 *
 * @param {string} source
 * @returns {string[]}
 */
function packagesIn(source) {
  const specifiers = [
    ...source.matchAll(/(?<!["'])\b(?:from|import)\s*\(?\s*["']([^"'\n]+)["']|types="([^"]+)"/g),
  ].map(([, imported, referenced]) => imported ?? referenced ?? '');
  return specifiers
    .filter((name) => !name.startsWith('.') && !isBuiltin(name) && name !== 'node')
    .map((name) => name.split('/', name.startsWith('@') ? 2 : 1).join('/'));
}
