import type { ContextType, ExecutionContext } from '@nestjs/common';
import { LOCK_PARAMS } from '../call/call-context.js';
import type { CallContext } from './call-context.js';
import type { GuardSpec } from './guard-spec.js';
import { otherTransport } from './handler-kind.js';
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

/** What the context of a GraphQL request has, by Nest's own drivers. */
interface GraphqlContext {
  req?: HttpRequest;
  user?: unknown;
}

/** The call as a handler's templates see it, whatever brought it. */
export function callFromContext(context: ExecutionContext): CallContext {
  return complete({ ...fieldsOf(context), args: context.getArgs(), context });
}

function fieldsOf(context: ExecutionContext): Fields {
  switch (context.getType<ContextType | 'graphql'>()) {
    case 'rpc': {
      const rpc = context.switchToRpc();
      return { data: rpc.getData<unknown>(), user: userOf(rpc.getContext<unknown>()) };
    }
    case 'ws': {
      const ws = context.switchToWs();
      return { data: ws.getData<unknown>(), user: userOf(ws.getClient<unknown>()) };
    }
    case 'graphql': {
      const gql = context.getArgByIndex<GraphqlContext | undefined>(2);
      const { headers = {}, user } = gql?.req ?? {};
      return { data: context.getArgByIndex<unknown>(1), headers, user: user ?? gql?.user };
    }
    default:
      return fromRequest(context.switchToHttp().getRequest<HttpRequest>());
  }
}

/** What a guard of the application has put there. */
function userOf(holder: unknown): unknown {
  return (holder as { user?: unknown } | null | undefined)?.user;
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
  return (spec.routeArguments ??= routeArguments(spec.prototype, spec.method, transportOf(spec)));
}

function transportOf({ prototype, method }: GuardSpec): ReturnType<typeof otherTransport> {
  const handler: unknown = Reflect.get(prototype, method);
  return typeof handler === 'function' ? otherTransport(handler) : undefined;
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

const FIELD_OF = {
  param: 'params',
  query: 'query',
  body: 'body',
  headers: 'headers',
  data: 'data',
} as const;

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
