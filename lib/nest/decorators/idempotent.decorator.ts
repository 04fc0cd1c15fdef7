import { parseKeyTemplate } from '../../call/key-template.js';
import { collectIdempotentOptions } from '../../idempotency/idempotency-options.js';
import type { IdempotentOptions } from '../../idempotency/idempotency.js';
import { decorateMethod } from './decorate-method.js';

/**
 * Lets the first request with a key run and answers every repeat with the first one's stored reply: at most one
 * stored outcome per key, never "exactly once" (a process can die after its side effect and before its record;
 * such a run is visible as attempt 2). With `@DistributedLock` on the same method, in either order, it stands
 * outside: a replay needs no lock.
 *
 * @throws LockConfigError at decoration: wrong options, or a place where it cannot act. The call rejects with an
 *   `IdempotencyKeyError`, `IdempotencyInProgressError`, `IdempotencyMismatchError`,
 *   `IdempotencyUnreplayableError` or `StoreUnavailableError`.
 */
export function Idempotent(options: IdempotentOptions = {}): MethodDecorator {
  return decorateMethod('Idempotent', 'idempotent', options?.instance, (spec, faults) => {
    collectIdempotentOptions(options, undefined, spec.label, faults);
    for (const name of ['key', 'scope'] as const) {
      const source: unknown = options?.[name];
      if (typeof source === 'string') parseKeyTemplate(source, `${spec.label}.${name}`, faults);
    }
    spec.idempotent = options;
  });
}
