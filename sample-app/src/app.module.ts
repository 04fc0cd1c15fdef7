import { Module, type DynamicModule } from '@nestjs/common';
import { APP_FILTER, APP_PIPE } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { RedisLockModule } from 'nestjs-redis-lock';
import { inMemoryBackend } from 'nestjs-redis-lock/testing';
import { ActivityModule } from './activity/activity.module.js';
import { DashboardModule } from './dashboard/dashboard.module.js';
import type { Database } from './database/database.js';
import { DatabaseModule } from './database/database.module.js';
import { FaultFilter } from './faults/fault.filter.js';
import { validationPipe } from './faults/validation.pipe.js';
import { HOT_MERCHANT, HOT_MERCHANT_SHARDS, quotaGate } from './gates/gate.js';
import { InventoryModule } from './inventory/inventory.module.js';
import { MerchantsModule } from './merchants/merchants.module.js';
import { OrdersModule } from './orders/orders.module.js';
import { PaymentsModule } from './payments/payments.module.js';
import { ReconciliationModule } from './reconciliation/reconciliation.module.js';
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
          // within seconds. Not a guess: sections here take some 20 ms, twice their P99 is far below this, and 5 s
          // also outlast any ordinary pause.
          lock: { ttl: '5s' },
          idempotency: { lease: '5s' },
          quota: { shards: { [`${quotaGate(HOT_MERCHANT)}*`]: HOT_MERCHANT_SHARDS } },
          logging,
        }),
        ScheduleModule.forRoot(),
        DatabaseModule.forRoot(database),
        ActivityModule.forRoot(redis),
        OrdersModule,
        InventoryModule,
        MerchantsModule,
        PaymentsModule,
        DashboardModule.forRoot(redis),
        ReconciliationModule,
      ],
      providers: [
        { provide: APP_FILTER, useClass: FaultFilter },
        { provide: APP_PIPE, useFactory: validationPipe },
      ],
    };
  }
}
