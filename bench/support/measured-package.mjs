import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/**
 * The folder of the package that is measured: this repository, unless `BENCH_PACKAGE` names another built copy (an
 * earlier release beside this one, say).
 */
const packageFolder = resolve(
  process.env['BENCH_PACKAGE'] ?? fileURLToPath(new URL('../..', import.meta.url)),
);

// murlock brings a copy of Nest into bench/node_modules; the package must meet the one that it was built with
const packageRequire = createRequire(resolve(packageFolder, 'dist/cjs/index.js'));

/** @returns {Promise<typeof import('../../dist/esm/index.js')>} */
export const importPackage = () => import(pathToFileURL(resolve(packageFolder, 'dist/esm/index.js')).href);

/** @returns {Promise<typeof import('@nestjs/core')>} */
export const importNest = () => import(pathToFileURL(packageRequire.resolve('@nestjs/core')).href);

/** @returns {Promise<typeof import('@nestjs/common')>} */
export const importNestCommon = () => import(pathToFileURL(packageRequire.resolve('@nestjs/common')).href);
