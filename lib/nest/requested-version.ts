import { VersioningType, type ExecutionContext } from '@nestjs/common';
import type { ApplicationConfig } from '@nestjs/core';

/** Where a call carries the version that its request asked for. */
export const REQUESTED_VERSION: unique symbol = Symbol.for('nestjs-redis-lock/requested-version');

/**
 * The version that a request asks for, read as Nest's router reads it. Undefined where the route itself tells it
 * (URI versioning), or the application has no versions: a handler of several versions is several routes to its
 * callers, and a key of one must not answer for another.
 *
 * @see https://docs.nestjs.com/techniques/versioning
 */
export function requestedVersion(config: ApplicationConfig, context: ExecutionContext): unknown {
  const versioning = config.getVersioning();
  if (!versioning) return undefined;
  const request = context.switchToHttp().getRequest<{ headers?: Record<string, unknown> }>();
  switch (versioning.type) {
    case VersioningType.HEADER:
      return headerOf(request, versioning.header)?.trim();
    case VersioningType.MEDIA_TYPE:
      return headerOf(request, 'accept')?.split(';')[1]?.split(versioning.key)[1]?.trim();
    case VersioningType.CUSTOM:
      return versioning.extractor(request);
    default:
      return undefined;
  }
}

function headerOf({ headers = {} }: { headers?: Record<string, unknown> }, name: string): string | undefined {
  const value = headers[name.toLowerCase()];
  return typeof value === 'string' ? value : undefined;
}
