/** How a method is reached, by the metadata that Nest's packages leave on it. */

const METHOD = 'method';
const PATH = 'path';
const SSE = '__sse__';
const RENDER = '__renderTemplate__';
const GUARDS = '__guards__';
const GRAPHQL_ROOT = 'graphql:resolver_type';
/** `RequestMethod` of Nest. */
const READ_ONLY_METHODS: ReadonlyMap<number, string> = new Map([
  [0, 'GET'],
  [6, 'OPTIONS'],
  [7, 'HEAD'],
]);

/** What calls a method other than HTTP. */
export type Transport = 'microservice' | 'WebSocket' | 'GraphQL';

const OTHER_TRANSPORTS: ReadonlyArray<{ key: string; name: Transport }> = [
  { key: 'microservices:pattern', name: 'microservice' },
  { key: 'microservices:handler_type', name: 'microservice' },
  { key: 'websockets:message_mapping', name: 'WebSocket' },
  { key: GRAPHQL_ROOT, name: 'GraphQL' },
  { key: 'graphql:resolve_property', name: 'GraphQL' },
  { key: 'graphql:resolve_reference', name: 'GraphQL' },
];

const has = (key: string, method: object): boolean => Reflect.hasMetadata(key, method);

/** An HTTP route. */
export function isRoute(method: object): boolean {
  return has(PATH, method) && has(METHOD, method);
}

/** The transport other than HTTP that calls this method. */
export function otherTransport(method: object): Transport | undefined {
  return OTHER_TRANSPORTS.find(({ key }) => has(key, method))?.name;
}

/** `Query`, `Mutation` or `Subscription` of a GraphQL root field. */
export function graphqlRoot(method: object): string | undefined {
  const type: unknown = Reflect.getMetadata(GRAPHQL_ROOT, method);
  return typeof type === 'string' && ['Query', 'Mutation', 'Subscription'].includes(type) ? type : undefined;
}

export function isServerSentEvents(method: object): boolean {
  return Reflect.getMetadata(SSE, method) === true;
}

export function rendersTemplate(method: object): boolean {
  return has(RENDER, method);
}

/** `GET`, `HEAD` or `OPTIONS`, when the route is one of these. */
export function readOnlyMethod(method: object): string | undefined {
  return READ_ONLY_METHODS.get(Reflect.getMetadata(METHOD, method) as number);
}

/** Whether guards stand before the method or its class. */
export function isProtected(method: object, cls: object): boolean {
  return [method, cls].some((target) => {
    const guards: unknown = Reflect.getMetadata(GUARDS, target);
    return Array.isArray(guards) && guards.length > 0;
  });
}
