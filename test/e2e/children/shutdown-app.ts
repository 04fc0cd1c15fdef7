import { Controller, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cluster, Redis } from 'ioredis';
import { Idempotent } from '../../../lib/nest/decorators/idempotent.decorator.js';
import { LockService } from '../../../lib/nest/lock.service.js';
import { RedisLockModule } from '../../../lib/nest/redis-lock.module.js';

@Controller()
class Orders {
  @Post('pay')
  @Idempotent()
  pay(): string {
    return 'paid';
  }
}

/** Serves, holds a lock, and says when the close that it is told to do has come to its end. */
async function main(): Promise<void> {
  const [kind, ...ports] = process.argv.slice(2);
  const nodes = ports.map((port) => ({ host: '127.0.0.1', port: Number(port) }));
  const client = kind === 'cluster' ? new Cluster(nodes) : new Redis(nodes[0]!);
  client.on('error', () => undefined);

  @Module({
    imports: [
      RedisLockModule.forRoot({ redis: client, requireAtStartup: true, shutdown: { drainTimeout: 300 } }),
    ],
    controllers: [Orders],
  })
  class App {}

  const app = await NestFactory.create(App, { logger: false });
  const { exit } = process;
  process.exit = (code) => {
    process.stdout.write('after the shutdown hooks\n');
    return exit(code);
  };
  app.enableShutdownHooks(['SIGTERM'], { useProcessExit: true });
  await app.listen(0, '127.0.0.1');
  await app.get(LockService).acquire('lock:held');
  const paid = await fetch(`${await app.getUrl()}/pay`, {
    method: 'POST',
    headers: { 'idempotency-key': 'k' },
  });
  process.on('message', () => {
    void app.close().then(() => {
      process.stdout.write('after close\n');
      // what the application opened is the application's to close
      client.disconnect();
      process.disconnect();
    });
  });
  process.send?.({ ready: true, status: paid.status });
}

void main();
