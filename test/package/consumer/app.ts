import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  CurrentLock,
  DistributedLock,
  IdempotencyService,
  isRedisLockError,
  LockParam,
  LockService,
  QuotaService,
  RedisLockModule,
  type Lock,
} from 'nestjs-redis-lock';
import { inMemoryBackend } from 'nestjs-redis-lock/testing';

/** A consumer's application in a few lines; it is compiled and run both as CommonJS and as an ES module. */

@Injectable()
class StockService {
  running = 0;
  mostAtOnce = 0;

  @DistributedLock('lock:sku:<sku>', { ttl: '2s', waitTimeout: '5s' })
  async move(@LockParam('sku') sku: string, @CurrentLock() lock?: Lock): Promise<string> {
    this.running += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.running);
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.running -= 1;
    return `${sku}:${lock?.keys[0] ?? 'unlocked'}`;
  }
}

@Module({
  imports: [RedisLockModule.forRoot({ backend: inMemoryBackend() })],
  providers: [StockService],
})
class AppModule {}

async function main(): Promise<void> {
  const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error'] });
  const stock = app.get(StockService);
  const locks = app.get(LockService);

  const moved = await Promise.all([1, 2, 3, 4].map(() => stock.move('s1')));

  const held = await locks.acquire('lock:held');
  const refused: unknown = await locks
    .acquire('lock:held', { waitTimeout: 0 })
    .catch((error: unknown) => error);
  const released = await held.release();

  const quotas = app.get(QuotaService);
  await quotas.init('quota:q1', 3);
  const receipt = await quotas.deduct('quota:q1', 2, { operationId: 'o1' });

  let runs = 0;
  const once = () => app.get(IdempotencyService).execute('payment:p1', async () => (runs += 1));
  await once();
  await once();

  await app.close();
  process.stdout.write(
    JSON.stringify({
      moved: [...new Set(moved)],
      mostAtOnce: stock.mostAtOnce,
      refused: isRedisLockError(refused) ? refused.code : String(refused),
      released,
      remaining: receipt.remaining,
      runs,
    }),
  );
}

void main();
