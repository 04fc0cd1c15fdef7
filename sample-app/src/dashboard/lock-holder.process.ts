import { setTimeout as sleep } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { LockService, RedisLockModule } from 'nestjs-redis-lock';
import { reasonOf } from '../reason-of.js';

/**
 * A process of its own that takes a lock, tells its parent, and works for ever: made to be killed. Started by
 * `KillHolderAction` with `HOLD_REDIS_URL`, `HOLD_KEY` and `HOLD_TTL_MS`.
 */
@Module({ imports: [RedisLockModule.forRoot({ redis: process.env.HOLD_REDIS_URL ?? '' })] })
class LockHolderModule {}

async function hold(): Promise<void> {
  const app = await NestFactory.createApplicationContext(LockHolderModule, { logger: false });
  const ttl = Number(process.env.HOLD_TTL_MS);
  await app.get(LockService).withLock(
    process.env.HOLD_KEY ?? '',
    async (lock) => {
      process.send?.({ fencingToken: lock.fencingToken });
      await sleep(600_000, undefined, { signal: lock.signal });
    },
    { ttl, waitTimeout: '10s' },
  );
}

// It never outlives the server that started it.
process.once('disconnect', () => process.exit(1));

hold().catch((error: unknown) => {
  process.send?.({ fault: reasonOf(error) });
  process.disconnect();
});
