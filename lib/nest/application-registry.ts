import type { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import { LockConfigError } from '../errors.js';
import { processState } from '../process-state.js';
import { createHolder, type Holder } from './holder.js';

/** What this package knows of one application: shared by its named instances and by copies of the package. */
export interface ApplicationEntry {
  readonly holders: Map<string | undefined, Holder>;
  /** The names whose module has registered. */
  readonly registered: Set<string | undefined>;
  interceptor?: object;
  validated: boolean;
}

/** By `ModulesContainer`: it is the application's identity and can be injected everywhere. */
const applications = processState('applications', () => new WeakMap<object, ApplicationEntry>());

export function applicationEntry(modules: ModulesContainer): ApplicationEntry {
  let entry = applications.get(modules);
  if (!entry) {
    entry = { holders: new Map(), registered: new Set(), validated: false };
    applications.set(modules, entry);
  }
  return entry;
}

/** The holder of an instance name, empty until its module fills it. */
export function holderFor(modules: ModulesContainer, name: string | undefined): Holder {
  const { holders } = applicationEntry(modules);
  let holder = holders.get(name);
  if (!holder) {
    holder = createHolder(name);
    holders.set(name, holder);
  }
  return holder;
}

/** @throws LockConfigError when the application has this instance already. */
export function registerInstance(modules: ModulesContainer, name: string | undefined): void {
  const { registered } = applicationEntry(modules);
  if (registered.has(name)) {
    throw new LockConfigError({
      path: 'RedisLockModule',
      message:
        name === undefined
          ? 'is registered twice without a name: keep one forRoot() and import it once, or name the second'
          : `is registered twice under the name '${name}': give each instance a name of its own`,
    });
  }
  registered.add(name);
}

/**
 * The application's configuration. Nest gives it to no provider in every version that is supported, but its
 * container, which every `ModuleRef` knows, has it.
 */
export function applicationConfigOf(moduleRef: object): ApplicationConfig {
  const { container } = moduleRef as { container?: { applicationConfig?: ApplicationConfig } };
  const config = container?.applicationConfig;
  if (typeof config?.addGlobalInterceptor !== 'function') {
    throw new LockConfigError({
      path: 'RedisLockModule',
      message: 'this version of Nest does not show its ApplicationConfig: handlers could not be guarded',
    });
  }
  return config;
}
