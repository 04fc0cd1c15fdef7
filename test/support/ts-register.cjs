/**
 * Lets a forked test process require TypeScript: compiled by swc with decorators and their metadata, a `.js`
 * suffix resolved to `.ts` as the sources write it, and the package's own name mapped to its sources.
 */
const { existsSync } = require('node:fs');
const Module = require('node:module');
const { dirname, isAbsolute, join, resolve } = require('node:path');
const { transformFileSync } = require('@swc/core');

const root = resolve(__dirname, '../..');
const OWN = {
  'nestjs-redis-lock': join(root, 'lib/index.ts'),
  'nestjs-redis-lock/testing': join(root, 'lib/testing/index.ts'),
};

const resolveFilename = Module._resolveFilename;
Module._resolveFilename = function (request, parent, ...rest) {
  if (OWN[request]) return OWN[request];
  if (
    (request.startsWith('.') || isAbsolute(request)) &&
    request.endsWith('.js') &&
    parent?.filename?.endsWith('.ts')
  ) {
    const source = resolve(dirname(parent.filename), `${request.slice(0, -'.js'.length)}.ts`);
    if (existsSync(source)) return source;
  }
  return resolveFilename.call(this, request, parent, ...rest);
};

require.extensions['.ts'] = (module, filename) => {
  const { code } = transformFileSync(filename, { cwd: root, configFile: join(root, '.swcrc'), swcrc: false });
  module._compile(code, filename);
};

// a child never outlives the test that started it, not even one that was killed
const parentId = process.ppid;
setInterval(() => {
  if (process.ppid !== parentId) process.exit(1);
}, 250).unref();
