import { parseKeyTemplate, type ParsedKeyTemplate } from '../call/key-template.js';
import type { ConfigFault } from '../errors.js';
import { argumentsOf } from './call-factory.js';
import type { GuardSpec } from './guard-spec.js';
import { returnsObservable } from './guarded-method.js';
import {
  graphqlRoot,
  isProtected,
  isRoute,
  isServerSentEvents,
  otherTransport,
  readOnlyMethod,
  rendersTemplate,
  type Transport,
} from './handler-kind.js';

/** Why a decorated method would not be guarded as it is declared. */
export function methodFaults(spec: GuardSpec, method: object): ConfigFault[] {
  const transport = otherTransport(method);
  const route = isRoute(method);
  const messages = [
    ...(route ? routeFaults(spec, method) : []),
    ...(transport ? transportFaults(spec, method, transport) : []),
    ...(route || transport ? [] : plainFaults(spec)),
    ...(route ? [] : inFlightFaults(spec)),
  ];
  return messages.map((message) => ({ path: spec.label, message }));
}

/** What is allowed, and probably not meant. */
export function methodWarnings(
  spec: GuardSpec,
  method: object,
  cls: object,
  hasGlobalGuards: boolean,
): string[] {
  if (!spec.idempotent || !(isRoute(method) || graphqlRoot(method))) return [];
  const warnings: string[] = [];
  const readOnly = graphqlRoot(method) === 'Query' ? 'a query' : readOnlyMethod(method);
  if (readOnly !== undefined) {
    warnings.push(`${spec.label} is @Idempotent on ${readOnly}, which changes nothing: it passes through.`);
  }
  const byHeader = spec.idempotent.key === undefined;
  if (byHeader && spec.idempotent.scope === undefined && (hasGlobalGuards || isProtected(method, cls))) {
    warnings.push(
      `${spec.label} is @Idempotent behind a guard and has no scope: whoever sends the same key gets the same ` +
        "stored reply. Say whom a key belongs to, e.g. scope: '<user.id>'.",
    );
  }
  return warnings;
}

function routeFaults(spec: GuardSpec, method: object): string[] {
  if (!spec.idempotent) return [];
  const messages: string[] = [];
  if (argumentsOf(spec).answersItself) {
    messages.push(
      'is @Idempotent and answers by itself: say @Res({ passthrough: true }), and return the body',
    );
  }
  if (isServerSentEvents(method))
    messages.push('is @Idempotent and @Sse: a stream of events cannot be replayed');
  if (rendersTemplate(method)) messages.push('is @Idempotent and @Render: return the body instead');
  return messages;
}

/** What a template can look at in a message. */
const ROOTS: Readonly<Record<Transport, ReadonlySet<string>>> = {
  microservice: new Set(['data', 'args', 'user']),
  WebSocket: new Set(['data', 'args', 'user']),
  GraphQL: new Set(['data', 'args', 'user', 'headers']),
};

function transportFaults(spec: GuardSpec, method: object, transport: Transport): string[] {
  const root = graphqlRoot(method);
  if (root === 'Subscription') {
    return [
      `is a GraphQL subscription: ${names(spec)} cannot guard a stream of events. Decorate what publishes them`,
    ];
  }
  const messages: string[] = [];
  if (spec.idempotent && spec.idempotent.key === undefined && root === undefined) {
    messages.push(
      `is @Idempotent by a header, but a ${transport} handler has none: give it a key, e.g. key: "<data.id>"`,
    );
  }
  // the same method as an HTTP handler may look at more
  if (isRoute(method)) return messages;
  for (const template of templatesOf(spec)) {
    for (const { root: from, text } of template.placeholders) {
      if (from === undefined || ROOTS[transport].has(from)) continue;
      messages.push(
        `<${text}> in '${template.text}' cannot be found in a ${transport} handler: write <data.…> or the bare name`,
      );
    }
  }
  return messages;
}

function inFlightFaults({ idempotent }: GuardSpec): string[] {
  if (!idempotent?.inFlightReply) return [];
  return [
    'has an inFlightReply, which answers HTTP requests: anywhere else a repeat of what still runs is an error',
  ];
}

function plainFaults(spec: GuardSpec): string[] {
  const messages: string[] = [];
  const type: unknown = Reflect.getMetadata('design:returntype', spec.prototype, spec.method);
  if (isValueType(type) && !returnsObservable(spec)) {
    messages.push(
      `is declared to return ${type.name}, but a guarded method returns a Promise: declare it so`,
    );
  }
  if (spec.idempotent && spec.idempotent.key === undefined) {
    messages.push(
      'is @Idempotent by a header, but is no HTTP handler: give it a key, e.g. key: "<args.0.id>"',
    );
  }
  for (const template of templatesOf(spec)) messages.push(...lookUpFaults(template, spec));
  return messages;
}

/** A plain method has arguments, and nothing else that a template could look at. */
function lookUpFaults(template: ParsedKeyTemplate, spec: GuardSpec): string[] {
  const named = new Set(spec.paramNames.values());
  // Called directly, a handler's own parameter decorators say what its arguments are.
  if (argumentsOf(spec).fromRequest.length > 0) return [];
  return template.placeholders
    .filter(({ root, path }) => (root === undefined ? !named.has(path[0] ?? '') : root !== 'args'))
    .map(
      ({ text }) =>
        `<${text}> in '${template.text}' cannot be found in a method that is no HTTP handler: name a parameter ` +
        'with @LockParam(), or write <args.0>',
    );
}

function templatesOf({ lock, idempotent, label }: GuardSpec): ParsedKeyTemplate[] {
  const texts = [idempotent?.key, idempotent?.scope].filter((source) => typeof source === 'string');
  return [
    ...(lock && typeof lock.key !== 'function' ? [lock.key] : []),
    // They were checked at decoration.
    ...texts.map((text) => parseKeyTemplate(text, label, [])).filter((parsed) => parsed !== undefined),
  ];
}

/** A declared type that is no promise: `any`, unions and interfaces are `Object`, which says nothing. */
function isValueType(type: unknown): type is { name: string } {
  if (typeof type !== 'function' || type === Object) return false;
  const made = type.prototype as { then?: unknown } | undefined;
  return typeof made?.then !== 'function';
}

function names({ lock, idempotent }: GuardSpec): string {
  return [lock && '@DistributedLock', idempotent && '@Idempotent'].filter(Boolean).join(' and ');
}
