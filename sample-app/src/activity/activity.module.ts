import { Module, type DynamicModule } from '@nestjs/common';
import { REDIS_SOURCE, type RedisSource } from '../redis/redis-source.js';
import { ActivityService } from './activity.service.js';

/** Gives every module the {@link ActivityService}. */
@Module({})
export class ActivityModule {
  static forRoot(redis: RedisSource): DynamicModule {
    return {
      module: ActivityModule,
      global: true,
      providers: [{ provide: REDIS_SOURCE, useValue: redis }, ActivityService],
      exports: [ActivityService],
    };
  }
}
