import { collectIdempotentOptions, type IdempotentSpec } from '../idempotency/idempotency-options.js';
import type { GuardSpec } from './guard-spec.js';
import type { Holder } from './holder.js';
import { IdempotentHandler } from './idempotent-handler.js';
import type { InstanceRuntime } from './instance-runtime.js';
import type { LockInstance } from './lock-instance.js';

/** Gives decorated methods what they need of an instance. */
export function fillHolder(holder: Holder, instance: LockInstance, locks: InstanceRuntime['locks']): void {
  const { lock, idempotency: defaults } = instance.options;
  const specs = new WeakMap<GuardSpec, IdempotentSpec>();
  holder.runtime = {
    locks,
    defaults: { lock, idempotency: defaults },
    idempotency: {
      runner: new IdempotentHandler(instance.idempotency),
      specFor(spec) {
        let resolved = specs.get(spec);
        if (!resolved) {
          // Its faults were told at decoration and at start-up.
          resolved = collectIdempotentOptions(spec.idempotent, defaults, spec.label, []);
          specs.set(spec, resolved);
        }
        return resolved;
      },
    },
  };
}
