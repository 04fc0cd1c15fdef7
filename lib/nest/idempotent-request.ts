import type { ExecutionContext } from '@nestjs/common';
import type { RoutePlace } from '../idempotency/record-key.js';
import { graphqlPlace, graphqlRequest, isGraphql } from './graphql-request.js';

/** What of Express's and Fastify's requests is read. */
interface RequestLike {
  method: string;
  params?: Record<string, unknown>;
  headers: Record<string, string | string[] | undefined>;
  /** Of Node's own request, which Fastify's has under `raw`. */
  rawHeaders?: readonly string[];
  raw?: { rawHeaders?: readonly string[] };
  /** Express. */
  baseUrl?: string;
  route?: { path?: unknown };
  /** Express: what the `host` of a controller matched. */
  hosts?: Record<string, unknown>;
  /** Fastify. */
  routeOptions?: { url?: string };
}

/** Under which Nest keeps what `@Version()` and the `host` of `@Controller()` were given. */
const VERSION = '__version__';
const HOST = 'host';

const UNCHANGING = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Whether the request's method changes nothing by definition: there is nothing to de-duplicate. */
export function changesNothing(context: ExecutionContext): boolean {
  return UNCHANGING.has(requestOf(context).method.toUpperCase());
}

/**
 * Every value that was sent under the header's name. Node joins repeated headers with a comma, which a key
 * might hold itself: only the raw list tells that it was sent twice.
 */
export function headerValues(context: ExecutionContext, header: string): string[] {
  const request = isGraphql(context) ? graphqlRequest<RequestLike>(context) : requestOf(context);
  const name = header.toLowerCase();
  const raw = request.raw?.rawHeaders ?? request.rawHeaders;
  if (!raw) return [request.headers[name] ?? []].flat();
  return raw.filter((_, index) => index % 2 === 1 && raw[index - 1]!.toLowerCase() === name);
}

/**
 * The route as this request met it.
 *
 * @param requested the version that the request asked for, where the path does not tell it.
 */
export function routePlace(context: ExecutionContext, requested?: unknown): RoutePlace {
  if (isGraphql(context)) return graphqlPlace(context);
  const { method, params = {}, baseUrl = '', route, routeOptions, hosts } = requestOf(context);
  const [cls, handler] = [context.getClass(), context.getHandler()];
  const path =
    routeOptions?.url ?? (route?.path === undefined ? `${cls.name}.${handler.name}` : String(route.path));
  const version: unknown = Reflect.getMetadata(VERSION, handler) ?? Reflect.getMetadata(VERSION, cls);
  const host: unknown = Reflect.getMetadata(HOST, cls);
  const variant = [
    ...textsOf('version', version),
    ...textsOf('requested', requested),
    ...textsOf('host', host),
    ...(host ? textsOf('hosts', hosts) : []),
  ];
  return {
    method,
    route: `${baseUrl}${path}`,
    params,
    ...(variant.length === 0 ? {} : { variant: JSON.stringify(variant) }),
  };
}

function requestOf(context: ExecutionContext): RequestLike {
  return context.switchToHttp().getRequest<RequestLike>();
}

/** `VERSION_NEUTRAL` is a symbol. */
function textsOf(what: string, value: unknown): unknown[] {
  if (value === undefined) return [];
  return [
    what,
    ...[value].flat().map((part: unknown) => (typeof part === 'symbol' ? part.toString() : part)),
  ];
}
