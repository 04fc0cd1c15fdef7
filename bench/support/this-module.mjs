import { importNest, importPackage } from './measured-package.mjs';

/**
 * This module as an application uses it: the built package, `RedisLockModule.forRoot()` with its defaults apart
 * from a long `waitTimeout` (no other contender gives up either), and the injected `LockService`.
 *
 * @param {string} url
 */
async function openApplication(url) {
  const [{ LockService, RedisLockModule }, { NestFactory }] = await Promise.all([
    importPackage(),
    importNest(),
  ]);
  const app = await NestFactory.createApplicationContext(
    RedisLockModule.forRoot({ redis: url, lock: { waitTimeout: '10m' } }),
    { logger: ['error', 'warn'] },
  );
  return { app, locks: app.get(LockService) };
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
