import { importNest, importPackage } from './measured-package.mjs';

/**
 * This module as an application uses it: the built package, `RedisLockModule.forRoot()` with its defaults apart
 * from a long `waitTimeout` (no other contender gives up either), and the injected services.
 *
 * @param {string} url
 * @param {import('../../dist/esm/index.js').RedisLockModuleOptions} [options]
 */
export async function openApplication(url, options = {}) {
  const [{ LockService, QuotaService, RedisLockModule }, { NestFactory }] = await Promise.all([
    importPackage(),
    importNest(),
  ]);
  const app = await NestFactory.createApplicationContext(
    RedisLockModule.forRoot({ redis: url, lock: { waitTimeout: '10m' }, ...options }),
    { logger: ['error', 'warn'] },
  );
  return { app, locks: app.get(LockService), quotas: app.get(QuotaService) };
}

/**
 * @param {string} url
 * @returns {Promise<import('./session.mjs').Session>}
 */
export async function openThisModule(url) {
  const { app, locks } = await openApplication(url);
  return {
    async acquire(key) {
      const lock = await locks.acquire(key);
      return async () => {
        if ((await lock.release()) !== 'released') throw new Error(`The lock ${key} was lost.`);
      };
    },
    run: (key, task) => locks.withLock(key, task),
    close: () => app.close(),
  };
}
