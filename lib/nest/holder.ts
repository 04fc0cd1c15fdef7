import { LockConfigError } from '../errors.js';
import { processState } from '../process-state.js';
import type { InstanceRuntime } from './instance-runtime.js';

const HOLDER = Symbol.for('nestjs-redis-lock/holder');
const UNNAMED = '';
/** The slot that a test binds by hand: it serves every instance name. */
const BY_HAND = Symbol.for('nestjs-redis-lock/bound-by-hand');

/**
 * What a decorated class gets injected in place of the services themselves: a plain object without
 * dependencies that the module fills later. Injecting a service would make `forRootAsync` with a decorated
 * dependency a cycle.
 */
export interface Holder {
  readonly [HOLDER]: true;
  readonly name: string | undefined;
  /** Set once the module has built its parts. */
  runtime?: InstanceRuntime;
}

export function createHolder(name: string | undefined, runtime?: InstanceRuntime): Holder {
  return { [HOLDER]: true, name, ...(runtime ? { runtime } : {}) };
}

const slots = processState('holder-slots', () => new Map<string, symbol>());
/** Objects that take no new property. */
const sealed = processState('holder-sealed', () => new WeakMap<object, Map<symbol, Holder>>());

function slotOf(name: string | undefined): symbol {
  const key = name ?? UNNAMED;
  const known = slots.get(key);
  if (known) return known;
  const slot = Symbol(`nestjs-redis-lock/bound ${key}`);
  slots.set(key, slot);
  return slot;
}

/** The holder an object is bound to. */
export function holderOf(instance: unknown, name: string | undefined): Holder | undefined {
  if (!isObject(instance)) return undefined;
  return read(instance, slotOf(name)) ?? read(instance, BY_HAND);
}

/**
 * Binds an object to an application's instance of the module. What is no holder (an automatic mock, say) is
 * ignored: the call says then that nothing is bound.
 *
 * @param label names the class in the error.
 * @throws LockConfigError when it is bound to another application's.
 */
export function bindHolder(instance: object, name: string | undefined, holder: unknown, label: string): void {
  if (!isHolder(holder)) return;
  const slot = slotOf(name);
  const bound = read(instance, slot);
  if (bound === holder) return;
  if (bound) {
    throw new LockConfigError({
      path: label,
      message: 'this object already belongs to another application that still runs: give each its own',
    });
  }
  write(instance, slot, holder);
}

/** Ends what {@link bindHolder} began, if it is this holder's. */
export function unbindHolder(instance: object, holder: Holder): void {
  const slot = slotOf(holder.name);
  if (read(instance, slot) === holder) write(instance, slot, undefined);
}

/** Binds an object by hand, for every instance name. Binding again replaces it. */
export function bindByHand(instance: object, holder: Holder): void {
  write(instance, BY_HAND, holder);
}

function read(instance: object, slot: symbol): Holder | undefined {
  // The property first: it is found through a Proxy around the object too.
  const value = (instance as Record<symbol, unknown>)[slot] ?? sealed.get(instance)?.get(slot);
  return isHolder(value) ? value : undefined;
}

function write(instance: object, slot: symbol, holder: Holder | undefined): void {
  if (Object.isExtensible(instance)) {
    Object.defineProperty(instance, slot, {
      value: holder,
      configurable: true,
      writable: true,
      enumerable: false,
    });
    return;
  }
  const bound = sealed.get(instance) ?? new Map<symbol, Holder>();
  if (holder) bound.set(slot, holder);
  else bound.delete(slot);
  sealed.set(instance, bound);
}

function isHolder(value: unknown): value is Holder {
  // By own property: a mock that answers every property would pass for one.
  return isObject(value) && Object.hasOwn(value, HOLDER);
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}
