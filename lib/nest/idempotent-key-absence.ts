import type { ParsedKeyTemplate, Placeholder } from '../call/key-template.js';
import { LOCK_PARAMS } from '../call/call-context.js';
import type { CallContext } from './call-context.js';

/**
 * Whether a call has nothing at all for one of the template's placeholders: then it has no key, which is fine
 * where none is required. A value that is no scalar is another matter: a fault, whether required or not.
 */
export function isUnnamed(template: ParsedKeyTemplate, call: CallContext): boolean {
  return template.placeholders.some((wanted) =>
    placesOf(wanted, call).every((at) => isAbsent(at, wanted.path)),
  );
}

function placesOf({ root }: Placeholder, call: CallContext): unknown[] {
  if (root !== undefined) return [call[root]];
  return [call.params, call.query, call.body, call.data, call[LOCK_PARAMS]];
}

function isAbsent(from: unknown, path: readonly string[]): boolean {
  let value = from;
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return true;
    value = (value as Record<string, unknown>)[step];
  }
  return value === undefined || value === null || value === '';
}
