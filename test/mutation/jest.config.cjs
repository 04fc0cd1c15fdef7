const base = require('../../jest.config.cjs');

/** @type {import('jest').Config} */
module.exports = {
  ...base,
  transform: { '^.+\\.[tj]s$': '<rootDir>/test/mutation/mutating-transform.cjs' },
};
