import { Module, type DynamicModule } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-redis-lock';
import { inMemoryBackend } from 'nestjs-redis-lock/testing';
import { AdminModule } from './admin/admin.module.js';
import type { Database } from './database/database.js';
import { DatabaseModule } from './database/database.module.js';
import { InventoryModule } from './inventory/inventory.module.js';
import { OrdersModule } from './orders/orders.module.js';
import { PaymentsModule } from './payments/payments.module.js';
import type { RedisSource } from './redis/redis-source.js';

export interface AppResources {
  database: Database;
  redis: RedisSource;
  /** `'lifecycle'` logs every acquire, release and replay with key and token. */
  logging?: 'lifecycle' | 'problems';
}

@Module({})
export class AppModule {
  static forRoot({ database, redis, logging = 'problems' }: AppResources): DynamicModule {
    return {
      module: AppModule,
      imports: [
        RedisLockModule.forRoot({
          ...(redis.kind === 'redis'
            ? { redis: redis.url, requireAtStartup: true }
            : { backend: inMemoryBackend() }),
          // Short leases: the watchdog renews them while work goes on, and what a killed process held is free again
          // within seconds. Sections here take some 20 ms, so 5 s also outlast any ordinary pause.
          lock: { ttl: '5s' },
          idempotency: { lease: '5s' },
          logging,
        }),
        DatabaseModule.forRoot(database),
        OrdersModule,
        InventoryModule,
        PaymentsModule,
        AdminModule,
      ],
    };
  }
}
