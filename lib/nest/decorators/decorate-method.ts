import { Inject } from '@nestjs/common';
import { LockConfigError, type ConfigFault } from '../../errors.js';
import { labelOf, specFor, type GuardSpec } from '../guard-spec.js';
import { guardMethod, type Method } from '../guarded-method.js';
import { shadowingFaults } from '../hidden-method.js';
import { bindHolder, holderOf } from '../holder.js';
import { getHolderToken } from '../tokens.js';

type Kind = 'lock' | 'idempotent';

/**
 * What both decorators do: check what they stand on, add their declaration to the method's spec, put the Proxy
 * around the method, and have Nest inject the holder.
 *
 * @param declare checks the declaration, adds its faults, and puts it into the spec.
 */
export function decorateMethod(
  decorator: string,
  kind: Kind,
  instance: unknown,
  declare: (spec: GuardSpec, faults: ConfigFault[]) => void,
): MethodDecorator {
  return (target: object, method: string | symbol, descriptor?: PropertyDescriptor) => {
    const fault = faultOfTarget(target, method, descriptor);
    if (fault) throw new LockConfigError({ path: fault.path, message: `@${decorator} ${fault.message}` });

    const spec = specFor(target, method);
    if (spec[kind]) {
      throw new LockConfigError({ path: spec.label, message: `@${decorator} stands on this method twice` });
    }
    const faults: ConfigFault[] = [];
    if (instance !== undefined && (typeof instance !== 'string' || instance === '')) {
      faults.push({
        path: `${spec.label}: instance`,
        message: 'is the name of an instance, a non-empty string',
      });
    }
    declare(spec, faults);
    if (faults.length > 0) throw new LockConfigError(faults);

    injectHolder(spec, instance as string | undefined);
    const guarded = descriptor as PropertyDescriptor;
    guarded.value = guardMethod(spec, guarded.value as Method);
  };
}

/** Why a decorator cannot act where it stands. */
export function faultOfTarget(
  target: unknown,
  method: unknown,
  descriptor: PropertyDescriptor | undefined,
): ConfigFault | undefined {
  const className = (name: unknown): string =>
    typeof name === 'string' && name !== '' ? name : 'anonymous class';
  if (typeof method === 'object' && method !== null && 'kind' in method) {
    return { path: '', message: 'needs "experimentalDecorators" of TypeScript, as Nest does' };
  }
  if (method === undefined) {
    return {
      path: className((target as { name?: unknown }).name),
      message: 'stands on a class; put it on its methods',
    };
  }
  const name = String(method);
  if (typeof target === 'function') {
    return {
      path: `${className(target.name)}.${name}`,
      message: 'stands on a static method; Nest calls none',
    };
  }
  const path = labelOf(target as object, method as string | symbol);
  if (descriptor?.get ?? descriptor?.set)
    return { path, message: 'stands on an accessor; put it on a method' };
  const value: unknown = descriptor?.value;
  if (typeof value !== 'function') {
    return { path, message: 'stands on a property (an arrow function?); write it as a method' };
  }
  if (/^(Async)?GeneratorFunction$/.test(value.constructor.name)) {
    return { path, message: 'stands on a generator; return a Promise or an Observable instead' };
  }
  return undefined;
}

/**
 * Has Nest inject the holder into every instance it makes, whatever its scope. The property's description is
 * what Nest's own error shows when there is nothing to inject; the accessor keeps it off the visible object.
 */
function injectHolder({ prototype, label }: GuardSpec, instance: string | undefined): void {
  const names = injectedNames(prototype);
  if (names.has(instance)) return;
  names.add(instance);
  const needed =
    instance === undefined
      ? 'import RedisLockModule.forRoot()'
      : `there is no instance '${instance}': import RedisLockModule.forRoot({ name: '${instance}' })`;
  const property = Symbol(`${label} is decorated: ${needed}`);
  Object.defineProperty(prototype, property, {
    configurable: true,
    enumerable: false,
    get(this: object) {
      return holderOf(this, instance);
    },
    set(this: object, holder: unknown) {
      // Nest sets this behind the constructor: request-scoped and transient objects can be looked at here only
      const faults = shadowingFaults(prototype, this);
      if (faults.length > 0) throw new LockConfigError(faults);
      bindHolder(this, instance, holder, this.constructor.name);
    },
  });
  Inject(getHolderToken(instance))(prototype, property);
}

const INJECTED = Symbol.for('nestjs-redis-lock/injected');

/** The instance names that this prototype itself has a property for. */
function injectedNames(prototype: object): Set<string | undefined> {
  const host = prototype as { [INJECTED]?: Set<string | undefined> };
  if (!Object.hasOwn(prototype, INJECTED)) {
    Object.defineProperty(prototype, INJECTED, { value: new Set(), enumerable: false });
  }
  return host[INJECTED] as Set<string | undefined>;
}
