import { Module, type DynamicModule } from '@nestjs/common';
import { Database } from './database.js';
import { RefusedWrites } from './refused-writes.js';

/**
 * Gives every module the open {@link Database}. It does not close it: on shutdown the sections that still run
 * under a lock finish first, and they write.
 */
@Module({})
export class DatabaseModule {
  static forRoot(database: Database): DynamicModule {
    return {
      module: DatabaseModule,
      global: true,
      providers: [{ provide: Database, useValue: database }, RefusedWrites],
      exports: [Database, RefusedWrites],
    };
  }
}
