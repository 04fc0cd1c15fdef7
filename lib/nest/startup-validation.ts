import { Logger } from '@nestjs/common';
import type { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import { isRedisLockError, LockConfigError, type ConfigFault } from '../errors.js';
import { collectIdempotentOptions } from '../idempotency/idempotency-options.js';
import { collectLockOptions } from '../lock/lock-options.js';
import { applicationEntry } from './application-registry.js';
import { BARE, ownSpecs, prototypeChain, specOf, type GuardSpec } from './guard-spec.js';
import { bindHolder, type Holder } from './holder.js';
import { shadowingFaults } from './hidden-method.js';
import { methodFaults, methodWarnings } from './method-validation.js';

/** An object that was not made by Nest and was bound at start-up. */
export interface LateBound {
  readonly instance: object;
  readonly holder: Holder;
}

/**
 * Looks over the whole application once, before it serves: whether everything that is decorated will be
 * guarded. Binds the objects that Nest did not make (`useFactory`, `useValue`).
 *
 * @throws LockConfigError that lists every fault with its class and method.
 */
export function validateApplication(modules: ModulesContainer, config: ApplicationConfig): LateBound[] {
  const { interceptor } = applicationEntry(modules);
  const faults: ConfigFault[] = [];
  if (config.getGlobalInterceptors()[0] !== interceptor) {
    faults.push({
      path: 'RedisLockModule',
      message:
        'its interceptor does not stand first: the lock would end before what stands outside of it. ' +
        'Import RedisLockModule in the root module, and add other interceptors after the application was created',
    });
  }
  const hasGlobalGuards = config.getGlobalGuards().length > 0 || config.getGlobalRequestGuards().length > 0;
  const bound: LateBound[] = [];
  const seen = new Set<object>();
  for (const { prototype, cls, instance, madeElsewhere } of guardables(modules)) {
    if (!seen.has(prototype)) {
      seen.add(prototype);
      checkClass(modules, prototype, cls, faults, hasGlobalGuards);
    }
    if (instance) faults.push(...shadowingFaults(prototype, instance));
    if (madeElsewhere) bound.push(...bindLate(modules, madeElsewhere, faults));
  }
  if (faults.length > 0) throw new LockConfigError(faults);
  return bound;
}

interface Guardable {
  readonly prototype: object;
  readonly cls: object;
  /** The instance, when there is one already: not of request-scoped and transient classes. */
  readonly instance?: object;
  /** The instance, when Nest did not make it and so could not inject into it. */
  readonly madeElsewhere?: object;
}

/** Every class and object of the application with a decorated method on its prototypes. */
function* guardables(modules: ModulesContainer): Iterable<Guardable> {
  for (const moduleRef of modules.values()) {
    for (const collection of [moduleRef.controllers, moduleRef.providers, moduleRef.injectables]) {
      for (const wrapper of collection.values()) {
        if (wrapper.isAlias) continue;
        const made = !wrapper.isNotMetatype && typeof wrapper.metatype === 'function';
        // an object that was given may well be a test's double, whose properties are meant
        const existing: unknown =
          made && wrapper.isDependencyTreeStatic() && !wrapper.isTransient ? wrapper.instance : undefined;
        const instance: unknown = made ? undefined : wrapper.instance;
        const cls: unknown = made ? wrapper.metatype : undefined;
        const prototype: unknown =
          typeof cls === 'function'
            ? cls.prototype
            : isObject(instance)
              ? Object.getPrototypeOf(instance)
              : null;
        if (!isObject(prototype) || !prototypeChain(prototype).some((at) => ownSpecs(at))) continue;
        yield {
          prototype,
          cls: typeof cls === 'function' ? cls : prototype.constructor,
          ...(isObject(existing) ? { instance: existing } : {}),
          ...(isObject(instance) ? { madeElsewhere: instance } : {}),
        };
      }
    }
  }
}

function checkClass(
  modules: ModulesContainer,
  prototype: object,
  cls: object,
  faults: ConfigFault[],
  hasGlobalGuards: boolean,
): void {
  const checked = new Set<string | symbol>();
  const chain = prototypeChain(prototype);
  for (const at of chain) {
    for (const [name, spec] of ownSpecs(at) ?? []) {
      if (checked.has(name)) continue;
      checked.add(name);
      const declaring = chain.find((candidate) => Object.hasOwn(candidate, name)) ?? at;
      const method = Object.getOwnPropertyDescriptor(declaring, name)?.value as unknown;
      if (typeof method === 'function' && Reflect.getMetadata(BARE, method) === true) continue;
      const carried = specOf(method);
      if (carried !== undefined) {
        checkMethod(modules, carried, method as object, faults);
        warn(methodWarnings(carried, method as object, cls, hasGlobalGuards));
      } else if (declaring === at) {
        faults.push({
          path: spec.label,
          message:
            'a decorator above ours replaced the method and dropped its metadata: the method would run unguarded. ' +
            'Put that decorator below, or let it copy the metadata',
        });
      } else {
        faults.push({
          path: `${declaring.constructor.name}.${String(name)}`,
          message: `overrides ${spec.label}, which is decorated, without a decorator of its own: repeat it, or say @AllowBare()`,
        });
      }
    }
  }
}

function checkMethod(
  modules: ModulesContainer,
  spec: GuardSpec,
  method: object,
  faults: ConfigFault[],
): void {
  faults.push(...methodFaults(spec, method));
  checkAgainstDefaults(modules, spec, faults);
}

function warn(warnings: readonly string[]): void {
  for (const warning of warnings) new Logger('RedisLock').warn(warning);
}

/** The declarations again, now that the instance's defaults are known. */
function checkAgainstDefaults(modules: ModulesContainer, spec: GuardSpec, faults: ConfigFault[]): void {
  const { holders } = applicationEntry(modules);
  const defaultsOf = (name: string | undefined): NonNullable<Holder['runtime']>['defaults'] => {
    const runtime = holders.get(name)?.runtime;
    if (!runtime) faults.push({ path: spec.label, message: unknownInstance(name) });
    return runtime?.defaults;
  };
  if (spec.lock) {
    const defaults = defaultsOf(spec.lock.instance);
    if (defaults) collectLockOptions(spec.lock.options, defaults.lock, spec.label, faults);
  }
  if (spec.idempotent) {
    const defaults = defaultsOf(spec.idempotent.instance);
    if (defaults) collectIdempotentOptions(spec.idempotent, defaults.idempotency, spec.label, faults);
  }
}

function bindLate(modules: ModulesContainer, instance: object, faults: ConfigFault[]): LateBound[] {
  const { holders } = applicationEntry(modules);
  const bound: LateBound[] = [];
  for (const at of prototypeChain(Object.getPrototypeOf(instance) as object | null)) {
    for (const { lock, idempotent, label } of ownSpecs(at)?.values() ?? []) {
      for (const declared of [lock, idempotent]) {
        const holder = declared && holders.get(declared.instance);
        if (!holder?.runtime) continue;
        try {
          bindHolder(instance, holder.name, holder, label);
          bound.push({ instance, holder });
        } catch (error) {
          if (!isRedisLockError(error, 'LOCK_CONFIG')) throw error;
          faults.push(...(error as LockConfigError).faults);
        }
      }
    }
  }
  return bound;
}

function unknownInstance(name: string | undefined): string {
  return name === undefined
    ? 'is decorated: import RedisLockModule.forRoot() without a name'
    : `names the instance '${name}', which does not exist: import RedisLockModule.forRoot({ name: '${name}' })`;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
