/**
 * The layers: nest -> { lock, idempotency, quota, call } -> backend (interface) -> errors, duration.
 * What is allowed is listed; everything else inside lib is an error.
 *
 * @type {import('dependency-cruiser').IConfiguration}
 */
const base = '^lib/(?!index\\.ts)[^/]+\\.ts$';

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'no-orphans',
      comment: 'A file that nobody imports is dead, or missing from an entry point.',
      severity: 'error',
      from: { orphan: true },
      to: {},
    },
    {
      name: 'only-declared-packages',
      comment: 'A consumer only has what dependencies and peerDependencies name.',
      severity: 'error',
      from: { path: '^lib/' },
      to: { path: 'node_modules/', dependencyTypesNot: ['npm', 'npm-peer'] },
    },
    { name: 'nothing-unresolved', severity: 'error', from: {}, to: { couldNotResolve: true } },
    {
      name: 'no-deprecated-core',
      severity: 'error',
      from: {},
      to: { dependencyTypes: ['deprecated'] },
    },
    {
      name: 'base-knows-nobody',
      severity: 'error',
      from: { path: base },
      to: { path: '^lib/', pathNot: base },
    },
    {
      name: 'backend-knows-only-the-base',
      comment: 'The store interface and what is shared by its implementations.',
      severity: 'error',
      from: { path: '^lib/backend/[^/]+\\.ts$' },
      to: { path: '^lib/', pathNot: [base, '^lib/backend/[^/]+\\.ts$'] },
    },
    {
      name: 'stores-know-the-interface-only',
      comment: 'A store knows itself, the interface and the base; never another store.',
      severity: 'error',
      from: { path: '^lib/backend/([^/]+)/' },
      to: { path: '^lib/', pathNot: [base, '^lib/backend/[^/]+\\.ts$', '^lib/backend/$1/'] },
    },
    {
      name: 'lock-knows-the-interface-only',
      severity: 'error',
      from: { path: '^lib/lock/' },
      to: { path: '^lib/', pathNot: [base, '^lib/backend/[^/]+\\.ts$', '^lib/lock/'] },
    },
    {
      name: 'idempotency-and-quota-may-use-lock',
      severity: 'error',
      from: { path: '^lib/(idempotency|quota)/' },
      to: {
        path: '^lib/',
        pathNot: [base, '^lib/backend/[^/]+\\.ts$', '^lib/lock/', '^lib/$1/', '^lib/call/'],
      },
    },
    {
      name: 'only-types-from-call',
      comment: 'How a call looks is a type; how it came about is the business of nest.',
      severity: 'error',
      from: { path: '^lib/(lock|idempotency|quota)/' },
      to: { path: '^lib/call/', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'call-stands-alone',
      severity: 'error',
      from: { path: '^lib/call/' },
      to: { path: '^lib/', pathNot: [base, '^lib/call/'] },
    },
    {
      name: 'only-nest-knows-nest',
      comment: 'The entry points and the testing helpers reach Nest through lib/nest.',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/nest/' },
      to: { path: 'node_modules/@nestjs/' },
    },
    {
      name: 'only-the-redis-backend-knows-ioredis',
      comment: 'nest may name its types, for the options of the module.',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/backend/redis/' },
      to: { path: 'node_modules/ioredis/', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'ioredis-types-only-in-nest',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/(backend/redis|nest)/' },
      to: { path: 'node_modules/ioredis/' },
    },
    {
      name: 'nobody-imports-an-entry-point',
      comment: 'Inside lib, files import files: an entry point is for consumers.',
      severity: 'error',
      from: { path: '^lib/' },
      to: { path: '^lib/(index|testing/index)\\.ts$' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.lib.cjs.json' },
    combinedDependencies: false,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'types', 'default'],
      extensions: ['.ts', '.js', '.d.ts'],
    },
  },
};
