/** @type {import('jest').Config} */
module.exports = {
  rootDir: __dirname,
  roots: ['<rootDir>/test', '<rootDir>/sample-app'],
  testEnvironment: 'node',
  testMatch: ['**/*.spec.ts'],
  // They need the built package and a registry: `npm run test:package`.
  testPathIgnorePatterns: ['/node_modules/', '<rootDir>/test/package/'],
  globalSetup: '<rootDir>/test/support/global-setup.cjs',
  transform: { '^.+\\.[tj]s$': '@swc/jest' },
  // Nest 12 is ESM-only, and so are a few packages under it: Jest in CommonJS must transform them.
  transformIgnorePatterns: ['/node_modules/(?!(?:.*/)?(?:@nestjs|cookie)/)'],
  moduleNameMapper: {
    '^nestjs-redis-lock$': '<rootDir>/lib/index.ts',
    '^nestjs-redis-lock/testing$': '<rootDir>/lib/testing/index.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  testTimeout: 30_000,
  // most of them wait, for servers, processes and leases: more than the cores of a small machine
  maxWorkers: 4,
};
