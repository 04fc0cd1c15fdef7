import type { ContextType, ExecutionContext } from '@nestjs/common';
import { LockConfigError } from '../errors.js';
import type { RoutePlace } from '../idempotency/record-key.js';

/** What of GraphQL's `info` is read. */
interface ResolveInfo {
  fieldName?: string;
  parentType?: { name?: string };
  path?: ResponsePath;
}

interface ResponsePath {
  prev?: ResponsePath;
  key?: string | number;
}

export function isGraphql(context: ExecutionContext): boolean {
  return context.getType<ContextType | 'graphql'>() === 'graphql';
}

/**
 * The HTTP request that brought a GraphQL document.
 *
 * @throws LockConfigError when the application's context hides it.
 */
export function graphqlRequest<T extends object>(context: ExecutionContext): T {
  const request: unknown = context.getArgByIndex<{ req?: unknown } | undefined>(2)?.req;
  if (typeof request === 'object' && request !== null) return request as T;
  throw new LockConfigError({
    path: `${context.getClass().name}.${context.getHandler().name}`,
    message:
      'is @Idempotent by a header, and the GraphQL context has no `req` to read it from: keep it, or use a key',
  });
}

/**
 * Where a field of a document stands. One document may hold several mutations, of one kind even: its alias tells
 * them apart, and a retry sends the same document.
 */
export function graphqlPlace(context: ExecutionContext): RoutePlace {
  const { fieldName, parentType, path } = context.getArgByIndex<ResolveInfo | undefined>(3) ?? {};
  const keys: unknown[] = [];
  for (let at = path; at; at = at.prev) keys.unshift(at.key);
  return {
    method: 'GRAPHQL',
    route: `${parentType?.name ?? context.getClass().name}.${fieldName ?? context.getHandler().name}`,
    variant: JSON.stringify(keys),
    params: {},
  };
}
