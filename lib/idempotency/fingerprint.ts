import type { CallContext } from '../call/call-context.js';
import { canonicalHash } from './canonical-hash.js';
import type { IdempotentOptions } from './idempotency.js';

/**
 * What is compared: as the options say, or, where they say nothing, the body unless it is a multipart form (its
 * boundary, and often its files, are others in every delivery).
 */
export type FingerprintRule = NonNullable<IdempotentOptions['fingerprint']> | 'bodyUnlessMultipart';

const MULTIPART = /^\s*multipart\//i;

/**
 * The fingerprint of a call: what must be the same in a repeat. At once for a small body, as a promise for a large
 * one ({@link canonicalHash}), or where the function gives one.
 *
 * @returns null when nothing is compared.
 */
export function fingerprintOf(
  what: FingerprintRule,
  call: CallContext,
): string | null | Promise<string | null> {
  if (what === false) return null;
  if (what === 'bodyUnlessMultipart') return isMultipart(call) ? null : canonicalHash(call.body);
  if (what === true) return canonicalHash(call.body);
  if (typeof what !== 'function') {
    return canonicalHash(what.map((path) => [path, ownValueAt(call.body, path)]));
  }
  const value = what(call);
  return isThenable(value) ? Promise.resolve(value).then(canonicalHash) : canonicalHash(value);
}

function isMultipart({ headers }: CallContext): boolean {
  const type = headers['content-type'];
  return typeof type === 'string' && MULTIPART.test(type);
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === 'function';
}

/** `order.id` in the body, or a field that is literally called so; own properties only. */
function ownValueAt(body: unknown, path: string): unknown {
  if (isOwn(body, path)) return body[path];
  let at: unknown = body;
  for (const name of path.split('.')) {
    if (!isOwn(at, name)) return undefined;
    at = at[name];
  }
  return at;
}

function isOwn(value: unknown, name: string): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name);
}
