import { createHash } from 'node:crypto';
import type { CallContext } from '../call/call-context.js';
import { IdempotencyKeyError } from '../errors.js';
import type { IdempotentOptions } from './idempotency.js';

/** Nobody's request nests deeper, and a deeper one would exhaust the stack here or further on. */
const DEEPEST = 500;

/**
 * The fingerprint of a call: what must be the same in a repeat.
 *
 * @returns null when nothing is compared.
 */
export function fingerprintOf(
  what: NonNullable<IdempotentOptions['fingerprint']>,
  call: CallContext,
): string | null {
  if (what === false) return null;
  if (what === true) return hashOf(call.body);
  if (typeof what === 'function') return hashOf(what(call));
  return hashOf(what.map((path) => [path, ownValueAt(call.body, path)]));
}

/** SHA-256 of the value's canonical JSON. */
export function hashOf(value: unknown): string {
  return createHash('sha256').update(canonical(value, 0)).digest('hex');
}

/**
 * JSON with sorted object keys and arrays in order, so that `{a,b}` and `{b,a}` are one request. What JSON has
 * no form for (undefined, bytes, bigint) gets one of its own: it must never look like something else.
 */
function canonical(value: unknown, depth: number): string {
  if (depth > DEEPEST) {
    throw new IdempotencyKeyError(
      `The request is nested deeper than ${DEEPEST} levels: it cannot be compared.`,
    );
  }
  if (value === undefined || typeof value === 'function' || typeof value === 'symbol') return 'undefined';
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (ArrayBuffer.isView(value)) {
    const { buffer, byteOffset, byteLength } = value;
    return `bytes(${createHash('sha256')
      .update(Buffer.from(buffer, byteOffset, byteLength))
      .digest('hex')})`;
  }
  if ('toJSON' in value && typeof value.toJSON === 'function') {
    return canonical((value.toJSON as () => unknown)(), depth + 1);
  }
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, depth + 1)).join(',')}]`;
  const fields = value as Record<string, unknown>;
  const written: string[] = [];
  for (const name of Object.keys(fields).sort()) {
    if (fields[name] !== undefined) {
      written.push(`${JSON.stringify(name)}:${canonical(fields[name], depth + 1)}`);
    }
  }
  return `{${written.join(',')}}`;
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
