import { Module, type DynamicModule } from '@nestjs/common';
import { LockConfigError } from '../errors.js';
import { ASYNC_OPTIONS_TYPE, ConfigurableModuleClass, OPTIONS_TYPE } from './module-definition.js';

/** Options of `RedisLockModule.forRoot()`, with `isGlobal` and `name` beside them. */
export type RedisLockModuleRootOptions = typeof OPTIONS_TYPE;

/**
 * Options of `RedisLockModule.forRootAsync()`: `useFactory` with `inject`, or `useClass` or `useExisting` with a
 * class that has `createRedisLockOptions()`; `imports`; and `isGlobal` and `name`, which cannot wait.
 */
export type RedisLockModuleAsyncOptions = typeof ASYNC_OPTIONS_TYPE;

/**
 * Locks, idempotency and atomic quotas over a Redis.
 *
 * `forRoot()` without options works against a Redis on this machine. Each instance opens its own connections; a
 * second one in the same application needs a `name`.
 */
@Module({})
export class RedisLockModule extends ConfigurableModuleClass {
  /** @throws LockConfigError at start-up: lists every fault of the options with its path. */
  static override forRoot(options: RedisLockModuleRootOptions = {}): DynamicModule {
    assertObject(options, 'forRoot');
    return super.forRoot(options);
  }

  /**
   * As {@link forRoot}, with options that are made later.
   * @throws LockConfigError when nothing says how.
   */
  static override forRootAsync(options: RedisLockModuleAsyncOptions): DynamicModule {
    assertObject(options, 'forRootAsync');
    if (!options.useFactory && !options.useClass && !options.useExisting) {
      throw new LockConfigError({
        path: 'forRootAsync',
        message: 'needs useFactory, useClass or useExisting',
      });
    }
    return super.forRootAsync(options);
  }
}

function assertObject(options: unknown, path: string): void {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return;
  throw new LockConfigError({ path, message: 'its options are an object' });
}
