import { createParamDecorator } from '@nestjs/common';
import type { Transport } from './handler-kind.js';

/**
 * Nest keeps what it knows of a handler's parameters under this key of the class. It is internal to Nest
 * (the same since Nest 6, one key for HTTP, RPC, WebSocket and GraphQL): everything that reads it is in this
 * file, and takes nothing for granted.
 */
const ROUTE_ARGUMENTS = '__routeArguments__';
const RESPONSE_PASSTHROUGH = '__responsePassthrough__';

/** `RouteParamtypes` of Nest, which it does not export. */
const KIND = { request: 0, response: 1, next: 2, body: 3, query: 4, param: 5, headers: 6 } as const;
type Kind = keyof typeof KIND | 'data';
const HTTP_KINDS = new Map<number, Kind>(Object.entries(KIND).map(([name, value]) => [value, name as Kind]));
/** The payload of `RpcParamtype` and `WsParamtype`, the arguments of `GqlParamtype`: the same number in each. */
const MESSAGE_KINDS = new Map<number, Kind>([[3, 'data']]);
/** Where Nest passes the payload of a handler without parameter decorators. */
const DEFAULT_PAYLOAD: Partial<Record<Transport, number>> = { microservice: 0, WebSocket: 1 };

const CURRENT_LOCK = Symbol.for('nestjs-redis-lock/current-lock');

/** One parameter of a handler that is filled from the request. */
export interface RouteArgument {
  readonly kind: Kind;
  readonly index: number;
  /** `@Param('id')` has `'id'`; `@Param()` has none. */
  readonly name?: string;
}

/** What is known of a method's parameters. */
export interface RouteArguments {
  readonly fromRequest: readonly RouteArgument[];
  /** The positions of `@CurrentLock()`. */
  readonly currentLock: readonly number[];
  /** `@Res()` or `@Next()` without `passthrough`: the handler answers by itself. */
  readonly answersItself: boolean;
}

/**
 * Nest's factory gives nothing: the lock is not there yet in every context when parameters are made. The
 * guarded method fills the position that this marks.
 */
const currentLockFactory = Object.assign((): undefined => undefined, { [CURRENT_LOCK]: true });

/** Behind `@CurrentLock()`. */
export const createCurrentLockDecorator = createParamDecorator<void>(currentLockFactory);

/**
 * Reads what Nest knows of a method's parameters. Nothing of it can be relied on: what is odd is left out.
 *
 * @param transport of a handler that is not HTTP's.
 */
export function routeArguments(
  prototype: object,
  method: string | symbol,
  transport?: Transport,
): RouteArguments {
  const metadata: unknown = Reflect.getMetadata(ROUTE_ARGUMENTS, prototype.constructor, method);
  const entries = isRecord(metadata) ? Object.entries(metadata) : [];
  const fromRequest: RouteArgument[] = [];
  const currentLock: number[] = [];
  const kinds = transport ? MESSAGE_KINDS : HTTP_KINDS;
  let answersItself = false;
  for (const [key, entry] of entries) {
    if (!isRecord(entry) || typeof entry.index !== 'number') continue;
    if (isCurrentLock(entry.factory)) {
      currentLock.push(entry.index);
      continue;
    }
    const kind = kinds.get(Number(key.split(':', 1)[0]));
    if (kind === undefined) continue;
    if (kind === 'response' || kind === 'next') answersItself = true;
    fromRequest.push({
      kind,
      index: entry.index,
      ...(typeof entry.data === 'string' && entry.data !== '' ? { name: entry.data } : {}),
    });
  }
  const payload = transport && DEFAULT_PAYLOAD[transport];
  if (entries.length === 0 && payload !== undefined) fromRequest.push({ kind: 'data', index: payload });
  const passthrough = Reflect.getMetadata(RESPONSE_PASSTHROUGH, prototype.constructor, method) === true;
  return { fromRequest, currentLock, answersItself: answersItself && !passthrough };
}

function isCurrentLock(factory: unknown): boolean {
  return typeof factory === 'function' && (factory as { [CURRENT_LOCK]?: unknown })[CURRENT_LOCK] === true;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
