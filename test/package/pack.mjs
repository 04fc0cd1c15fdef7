import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');

/**
 * Packs what is built (`npm run build:lib` comes first) as it would be published.
 *
 * @param {string} folder where the tarball goes
 * @returns {{ tarball: string, files: string[] }}
 */
export function pack(folder) {
  const printed = execFileSync('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', folder], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  // a list in npm 11, an object by package name in later ones: the values are the same
  /** @type {Array<{ filename: string, files: Array<{ path: string }> }>} */
  const packages = Object.values(JSON.parse(printed));
  const [packed] = packages;
  if (!packed) throw new Error('npm pack told of no package.');
  return { tarball: resolve(folder, packed.filename), files: packed.files.map(({ path }) => path) };
}
