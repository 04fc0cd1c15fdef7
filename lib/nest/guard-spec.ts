import type { ParsedKeyTemplate } from '../call/key-template.js';
import type { IdempotentOptions } from '../idempotency/idempotency.js';
import type { LockBusyError } from '../errors.js';
import type { LockOptions } from '../lock/lock.js';
import type { CallContext } from './call-context.js';
import type { RouteArguments } from './route-arguments.js';

/** On a method: the spec it is guarded by. Read by every copy of the package. */
export const GUARD = Symbol.for('nestjs-redis-lock/guard');
/** On an override: it is meant to be unguarded. */
export const BARE = Symbol.for('nestjs-redis-lock/allow-bare');
const SPECS = Symbol.for('nestjs-redis-lock/specs');
const PARAM_NAMES = Symbol.for('nestjs-redis-lock/param-names');

export type KeyFunction = (call: CallContext) => string | readonly string[];

/** What is done when the lock is busy. */
export type OnBusy = 'throw' | 'skip' | ((busy: LockBusyError, call: CallContext) => unknown);

/** What `@DistributedLock` declares. */
export interface LockDeclaration {
  readonly key: ParsedKeyTemplate | KeyFunction;
  readonly options: LockOptions;
  readonly onBusy: OnBusy;
  /** The named instance of the module. */
  readonly instance?: string;
}

/** What the decorators declare for one method of one prototype. Both share it. */
export interface GuardSpec {
  readonly prototype: object;
  readonly method: string | symbol;
  /** `OrdersService.pay`. */
  readonly label: string;
  lock?: LockDeclaration;
  idempotent?: IdempotentOptions;
  /** Positions and names of `@LockParam()`. */
  readonly paramNames: ReadonlyMap<number, string>;
  /** Read at the first use: parameter decorators of Nest may be applied later than ours. */
  routeArguments?: RouteArguments;
}

/** The spec of a method, made at the first decorator. */
export function specFor(prototype: object, method: string | symbol): GuardSpec {
  let specs = ownSpecs(prototype);
  if (!specs) {
    specs = new Map();
    Object.defineProperty(prototype, SPECS, { value: specs, enumerable: false });
  }
  let spec = specs.get(method);
  if (!spec) {
    spec = {
      prototype,
      method,
      label: labelOf(prototype, method),
      paramNames: paramNames(prototype, method),
    };
    specs.set(method, spec);
  }
  return spec;
}

/** The specs declared on this prototype itself. */
export function ownSpecs(prototype: object): Map<string | symbol, GuardSpec> | undefined {
  return Object.hasOwn(prototype, SPECS)
    ? (prototype as { [SPECS]?: Map<string | symbol, GuardSpec> })[SPECS]
    : undefined;
}

/** The prototypes of an object or of a class's instances, nearest first, without `Object.prototype`. */
export function prototypeChain(start: object | null): object[] {
  const chain: object[] = [];
  for (
    let at = start;
    at !== null && at !== Object.prototype;
    at = Object.getPrototypeOf(at) as object | null
  ) {
    chain.push(at);
  }
  return chain;
}

/** The spec that a function carries. */
export function specOf(method: unknown): GuardSpec | undefined {
  return typeof method === 'function'
    ? (Reflect.getMetadata(GUARD, method) as GuardSpec | undefined)
    : undefined;
}

/** `OrdersService.pay`, for errors and logs. */
export function labelOf(prototype: object, method: string | symbol): string {
  return `${prototype.constructor.name || 'anonymous class'}.${String(method)}`;
}

/** The names that `@LockParam()` gives to a method's parameters. */
export function paramNames(prototype: object, method: string | symbol): ReadonlyMap<number, string> {
  return (
    (Reflect.getMetadata(PARAM_NAMES, prototype, method) as Map<number, string> | undefined) ?? new Map()
  );
}

/** Adds a name, without changing what a base class declared. */
export function nameParam(prototype: object, method: string | symbol, index: number, name: string): void {
  Reflect.defineMetadata(
    PARAM_NAMES,
    new Map(paramNames(prototype, method)).set(index, name),
    prototype,
    method,
  );
}
