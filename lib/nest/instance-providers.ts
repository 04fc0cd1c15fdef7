import type { FactoryProvider, InjectionToken, Provider } from '@nestjs/common';
import { ModuleRef, ModulesContainer } from '@nestjs/core';
import { LockConfigError } from '../errors.js';
import {
  applicationConfigOf,
  applicationEntry,
  holderFor,
  registerInstance,
} from './application-registry.js';
import { errorTable, type ErrorTable } from './error-table.js';
import { GuardInterceptor } from './guard.interceptor.js';
import type { Holder } from './holder.js';
import { IdempotencyService } from './idempotency.service.js';
import { InstanceLifecycle } from './instance-lifecycle.js';
import { fillHolder } from './holder-filling.js';
import { LockInstance } from './lock-instance.js';
import { LockService } from './lock.service.js';
import type { RedisLockModuleOptions } from './module-options.js';
import { QuotaService } from './quota.service.js';
import {
  getHolderToken,
  getIdempotencyServiceToken,
  getInstanceToken,
  getLifecycleToken,
  getLockServiceToken,
  getQuotaServiceToken,
  MODULE_OPTIONS,
  REDIS_LOCK_ERROR_TABLE,
} from './tokens.js';

/** The providers of one instance. Only the unnamed one can be injected by class. */
export function instanceProviders(name: string | undefined): Provider[] {
  if (name !== undefined && (typeof name !== 'string' || name === '')) {
    throw new LockConfigError({
      path: 'name',
      message: 'is a non-empty string; leave it out for the unnamed instance',
    });
  }
  const instance = getInstanceToken(name);
  return [
    factory(getHolderToken(name), [ModulesContainer], (modules: ModulesContainer) =>
      holderFor(modules, name),
    ),
    factory(
      instance,
      [ModulesContainer, MODULE_OPTIONS],
      (modules: ModulesContainer, options: RedisLockModuleOptions | undefined) => {
        registerInstance(modules, name);
        return new LockInstance(options, name);
      },
    ),
    factory(getLockServiceToken(name), [instance], ({ locks }: LockInstance) => new LockService(locks)),
    factory(
      getIdempotencyServiceToken(name),
      [instance],
      ({ idempotency, options }: LockInstance) => new IdempotencyService(idempotency, options.idempotency),
    ),
    factory(getQuotaServiceToken(name), [instance], ({ quotas }: LockInstance) => new QuotaService(quotas)),
    ...(name === undefined ? byClass : []),
    lifecycle(name),
  ];
}

/** What of one instance other modules may inject. */
export function instanceExports(name: string | undefined): InjectionToken[] {
  return [
    getHolderToken(name),
    getLockServiceToken(name),
    getIdempotencyServiceToken(name),
    getQuotaServiceToken(name),
    ...(name === undefined ? [LockService, IdempotencyService, QuotaService] : []),
  ];
}

const byClass: Provider[] = [
  { provide: LockService, useExisting: getLockServiceToken() },
  { provide: IdempotencyService, useExisting: getIdempotencyServiceToken() },
  { provide: QuotaService, useExisting: getQuotaServiceToken() },
];

/**
 * Fills the holder, puts the interceptor in its place while providers are made (later, routes have copied the
 * list already), and follows the application's life. It takes the lock service as it is injected, so that
 * `overrideProvider` of a test reaches the decorators too.
 */
function lifecycle(name: string | undefined): FactoryProvider {
  const locks: InjectionToken = name === undefined ? LockService : getLockServiceToken(name);
  return factory(
    getLifecycleToken(name),
    [
      ModulesContainer,
      ModuleRef,
      getHolderToken(name),
      getInstanceToken(name),
      locks,
      { token: REDIS_LOCK_ERROR_TABLE, optional: true },
    ],
    (
      modules: ModulesContainer,
      moduleRef: ModuleRef,
      holder: Holder,
      instance: LockInstance,
      service: LockService,
      errors: ErrorTable | undefined,
    ) => {
      const config = applicationConfigOf(moduleRef);
      const entry = applicationEntry(modules);
      if (!entry.interceptor) {
        const interceptor = new GuardInterceptor(modules, errorTable(errors), config);
        entry.interceptor = interceptor;
        config.addGlobalInterceptor(interceptor);
      }
      fillHolder(holder, instance, service);
      return new InstanceLifecycle(modules, config, instance);
    },
  );
}

/** A factory provider whose parameters are typed where it is written. */
function factory<A extends never[]>(
  provide: InjectionToken,
  inject: NonNullable<FactoryProvider['inject']>,
  useFactory: (...args: A) => unknown,
): FactoryProvider {
  return { provide, inject, useFactory: useFactory as FactoryProvider['useFactory'] };
}
