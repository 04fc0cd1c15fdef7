import { type ModuleMetadata } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { isRedisLockError, type LockConfigError } from '../../lib/errors.js';
import type { RedisLockModuleOptions } from '../../lib/nest/module-options.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { inMemoryBackend } from '../../lib/testing/index.js';

const open: TestingModule[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((module) => module.close()));
  jest.restoreAllMocks();
});

const forRoot = (options: RedisLockModuleOptions & { name?: string; isGlobal?: boolean } = {}) =>
  RedisLockModule.forRoot({ backend: inMemoryBackend(), ...options });

async function start(metadata: ModuleMetadata): Promise<TestingModule> {
  const module = await Test.createTestingModule(metadata).setLogger(silent).compile();
  open.push(module);
  return module.init();
}

const silent = { log() {}, error() {}, warn() {}, debug() {}, verbose() {}, fatal() {} };

/** What the start-up says when it fails. */
async function failure(metadata: ModuleMetadata): Promise<string> {
  return start(metadata).then(
    () => 'started',
    (error: Error) => error.message,
  );
}

describe('options of the module', () => {
  it('are refused with one error that lists every fault with its path', async () => {
    const options = {
      redis: 7,
      nodes: [],
      keyPrefix: 'a}b',
      lock: { ttl: 10, waitTimeout: 'x', colour: 'red' },
      idempotency: { ttl: 'never', onConcurrent: 'maybe' },
      quota: { shards: { 'quota:1': 1, '{quota}:*': 8 }, operationTtl: -1 },
      requireAtStartup: 'yes',
      shutdown: { drainTimeout: {}, when: 'now' },
      logging: 'all',
      redisUrl: 'redis://x',
    };
    const error = (await start({ imports: [RedisLockModule.forRoot(options as never)] }).catch(
      (reason: unknown) => reason,
    )) as LockConfigError;
    expect(isRedisLockError(error, 'LOCK_CONFIG')).toBe(true);
    expect(error.faults.map(({ path }) => path).sort()).toEqual(
      [
        'idempotency.onConcurrent',
        'idempotency.ttl',
        'keyPrefix',
        'lock.colour',
        'lock.ttl',
        'lock.waitTimeout',
        'logging',
        'nodes',
        'quota.operationTtl',
        'quota.shards["quota:1"]',
        'quota.shards["{quota}:*"]',
        'redis',
        'redisUrl',
        'requireAtStartup',
        'shutdown.drainTimeout',
        'shutdown.when',
      ].sort(),
    );
  });

  it('name or isGlobal given by a factory is a fault: they cannot wait', async () => {
    const useFactory = (): RedisLockModuleOptions => ({ backend: inMemoryBackend(), name: 'late' }) as never;
    expect(await failure({ imports: [RedisLockModule.forRootAsync({ useFactory })] })).toMatch(
      /name: is no option/,
    );
  });

  it('a backend and a redis exclude each other, and what is no backend is refused', async () => {
    expect(await failure({ imports: [forRoot({ redis: 'redis://x' })] })).toMatch(
      /backend: and redis exclude/,
    );
    expect(await failure({ imports: [RedisLockModule.forRoot({ backend: {} as never })] })).toMatch(
      /no Backend/,
    );
  });

  it.each([null, 'redis://x', []])(
    '%j as options, or as what a factory gives, is refused',
    async (options) => {
      const useFactory = (): RedisLockModuleOptions => options as never;
      expect(await failure({ imports: [RedisLockModule.forRootAsync({ useFactory })] })).toMatch(
        /is an object/,
      );
      expect(() => RedisLockModule.forRoot(options as never)).toThrow(/options are an object/);
      expect(() => RedisLockModule.forRootAsync({})).toThrow(/needs useFactory/);
    },
  );
});
