const base = require('../../jest.config.cjs');

/**
 * The tests that need the built package and a registry to install a consumer's project from: apart from the
 * others, which need neither.
 *
 * @type {import('jest').Config}
 */
module.exports = {
  ...base,
  roots: ['<rootDir>/test/package'],
  testPathIgnorePatterns: ['/node_modules/'],
  globalSetup: undefined,
};
