import { NestFactory } from '@nestjs/core';
import { LockService, RedisLockModule } from '../../dist/esm/index.js';

/**
 * This module as an application uses it: the built package, `RedisLockModule.forRoot()` with its defaults, and
 * the injected `LockService`.
 *
 * @param {string} url
 * @returns {Promise<import('./contenders.mjs').Session>}
 */
export async function openThisModule(url) {
  const app = await NestFactory.createApplicationContext(RedisLockModule.forRoot({ redis: url }), {
    logger: ['error', 'warn'],
  });
  const locks = app.get(LockService);
  return {
    async cycle(key) {
      const lock = await locks.acquire(key);
      if ((await lock.release()) !== 'released') throw new Error(`The lock ${key} was lost.`);
    },
    close: () => app.close(),
  };
}
