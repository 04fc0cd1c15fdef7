import 'reflect-metadata';
import { createRequire } from 'node:module';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { LockService, RedisLockModule } from 'nestjs-redis-lock';
import type * as Package from 'nestjs-redis-lock';
import { inMemoryBackend } from 'nestjs-redis-lock/testing';

/** An ES module application with a library that uses the CommonJS copy of the package: both guard one method. */

const { DistributedLock } = createRequire(import.meta.url)('nestjs-redis-lock') as typeof Package;

@Injectable()
class JobService {
  @DistributedLock('lock:job', { ttl: '2s', waitTimeout: 0 })
  async run(): Promise<string> {
    return 'ran';
  }
}

@Module({ imports: [RedisLockModule.forRoot({ backend: inMemoryBackend() })], providers: [JobService] })
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error'] });
let acquired = 0;
app.get(LockService).events.subscribe(({ type }) => {
  if (type === 'acquired') acquired += 1;
});
const answer = await app.get(JobService).run();
await app.close();
process.stdout.write(JSON.stringify({ answer, acquired }));
