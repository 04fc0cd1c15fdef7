import type { ConfigFault } from '../errors.js';
import { ownSpecs, prototypeChain, specOf } from './guard-spec.js';

/** A property of the object itself (an arrow function, say) hides the guarded method: it would run unguarded. */
export function shadowingFaults(prototype: object, instance: object): ConfigFault[] {
  const specs = prototypeChain(prototype).flatMap((at) => [...(ownSpecs(at) ?? [])]);
  return specs
    .filter(([name]) => Object.hasOwn(instance, name) && specOf(Reflect.get(instance, name)) === undefined)
    .map(([name, spec]) => ({
      path: `${instance.constructor.name}.${String(name)}`,
      message: `a property hides ${spec.label}, which is decorated: it would run unguarded. Make it a method and decorate it`,
    }));
}
