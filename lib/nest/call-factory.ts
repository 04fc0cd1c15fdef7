import type { ExecutionContext } from '@nestjs/common';
import { LOCK_PARAMS } from '../call/call-context.js';
import type { CallContext } from './call-context.js';
import type { GuardSpec } from './guard-spec.js';
import { routeArguments, type RouteArgument, type RouteArguments } from './route-arguments.js';

type Fields = { -readonly [K in keyof CallContext]?: CallContext[K] };

/** What a request of Express and of Fastify have in common. */
interface HttpRequest {
  params?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
  headers?: CallContext['headers'];
  user?: unknown;
}

/** The call as an HTTP handler's templates see it. */
export function callFromHttp(context: ExecutionContext): CallContext {
  return complete({
    ...fromRequest(context.switchToHttp().getRequest<HttpRequest>()),
    args: context.getArgs(),
    context,
  });
}

/**
 * The call as a directly called method's templates see it. A handler that is called directly gives what its
 * parameter decorators name: with `@Param('id') id`, `<id>` is found.
 */
export function callFromArguments(spec: GuardSpec, args: readonly unknown[]): CallContext {
  const fields: Fields = {};
  const { fromRequest: known } = argumentsOf(spec);
  const request = known.find(({ kind }) => kind === 'request');
  if (request) Object.assign(fields, fromRequest(args[request.index] as HttpRequest));
  // A whole body first, so that @Body('id') beside it adds to it.
  for (const argument of known.filter(({ name }) => name === undefined)) place(fields, argument, args);
  for (const argument of known.filter(({ name }) => name !== undefined)) place(fields, argument, args);

  const named: Record<string, unknown> = {};
  for (const [index, name] of spec.paramNames) named[name] = args[index];
  return complete({ ...fields, args: [...args], [LOCK_PARAMS]: named });
}

/** What Nest knows of the parameters, read once: it is complete when the first call comes. */
export function argumentsOf(spec: GuardSpec): RouteArguments {
  return (spec.routeArguments ??= routeArguments(spec.prototype, spec.method));
}

function complete(fields: Fields): CallContext {
  return {
    args: [],
    params: {},
    query: {},
    body: undefined,
    headers: {},
    user: undefined,
    data: undefined,
    ...fields,
  };
}

function fromRequest(request: HttpRequest | null | undefined): Fields {
  const { params = {}, query = {}, body, headers = {}, user } = request ?? {};
  return { params, query, body, headers, user };
}

const FIELD_OF = { param: 'params', query: 'query', body: 'body', headers: 'headers' } as const;

function place(fields: Fields, { kind, name, index }: RouteArgument, args: readonly unknown[]): void {
  if (!(kind in FIELD_OF)) return;
  const value = args[index];
  const field = FIELD_OF[kind as keyof typeof FIELD_OF];
  if (name === undefined) {
    fields[field] = value as never;
    return;
  }
  const key = kind === 'headers' ? name.toLowerCase() : name;
  fields[field] = { ...(fields[field] as object | undefined), [key]: value } as never;
}
