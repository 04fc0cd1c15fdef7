import { hash } from 'node:crypto';
import { IdempotencyKeyError } from '../errors.js';

/** A record that a business key names: the same one from HTTP, a queue worker or the command line. */
export interface KeyIdentity {
  /** Whom the key belongs to. */
  scope?: string;
  key: string;
}

/** A record that a header names: within one route, one set of params and one owner. */
export interface HeaderIdentity {
  scope?: string;
  /** The header's value, already checked. */
  header: string;
  /** Where the key counts: the options' `namespace`, or the route. */
  place: { namespace: string } | RoutePlace;
}

/** A route as a request met it. */
export interface RoutePlace {
  method: string;
  /** The template, e.g. `/orders/:orderId`. */
  route: string;
  /** What else tells the handlers of one route apart: declared versions and hosts. */
  variant?: string;
  params: Readonly<Record<string, unknown>>;
}

const RECORD_KEY = /^idem:[^\s]+:[0-9a-f]{64}$/;
const LONGEST_LABEL = 200;

/** The record key of a business key. */
export function keyRecord(prefix: string, { scope, key }: KeyIdentity): string {
  return `${prefix}idem:key:${digest(['key', ...optional(scope), key])}`;
}

/** The record key of a header. */
export function headerRecord(prefix: string, { scope, header, place }: HeaderIdentity): string {
  if ('namespace' in place) {
    const { namespace } = place;
    return `${prefix}idem:${label(namespace)}:${digest(['namespace', ...optional(scope), namespace, header])}`;
  }
  const { method, route, variant, params } = place;
  const names = Object.keys(params).sort();
  const values = names.flatMap((name) => [name, textOf(params[name])]);
  return `${prefix}idem:${label(`${method}:${route}`)}:${digest([
    'route',
    ...optional(scope),
    method,
    route,
    ...optional(variant),
    String(names.length),
    ...values,
    header,
  ])}`;
}

/** Whether an operator's argument is a record key already, as events and logs show it. */
export function isRecordKey(prefix: string, text: string): boolean {
  return text.startsWith(prefix) && RECORD_KEY.test(text.slice(prefix.length));
}

/**
 * Each part with its length before it: no two different lists give one text, whatever the parts hold
 * (`['a:b', 'c']` and `['a', 'b:c']`). Hashed, so that no personal data stands in a key's name.
 */
function digest(parts: readonly string[]): string {
  let text = '';
  for (const part of parts) {
    if (!part.isWellFormed()) {
      throw new IdempotencyKeyError('The idempotency key is not well-formed Unicode.');
    }
    text += `${Buffer.byteLength(part)}:${part}`;
  }
  return hash('sha256', text);
}

/** A wildcard's param is an array on Express: `['a', 'b']` must not look like `'a,b'`. */
function textOf(param: unknown): string {
  return typeof param === 'string' ? param : (JSON.stringify(param) ?? 'undefined');
}

/** Absent and empty are different identities. */
function optional(part: string | undefined): readonly string[] {
  return part === undefined ? ['0'] : ['1', part];
}

/** What an operator reads in the key's name. Braces would choose a Cluster slot for a whole route. */
function label(text: string): string {
  return text.replace(/[^\x21-\x7e]|[{}%]/gu, (char) => encodeURIComponent(char)).slice(0, LONGEST_LABEL);
}
