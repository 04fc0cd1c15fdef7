import * as common from '@nestjs/common';
import { HttpException } from '@nestjs/common';
import { storeBody } from '../idempotency/stored-body.js';
import type { StoredError } from '../idempotency/stored-reply.js';

/** Kept in places of their own, or never (a stack and a cause belong to the first request). */
const NOT_FIELDS = new Set(['response', 'status', 'options', 'message', 'name', 'stack', 'cause']);

/**
 * What is stored for an error; undefined when it is no `HttpException`, or its answer is none that JSON can
 * express: the application's filter would answer a repeat differently.
 */
export function storeHttpError(error: unknown, maxBytes: number): Omit<StoredError, 'headers'> | undefined {
  if (!(error instanceof HttpException)) return undefined;
  const response = storeBody(error.getResponse(), maxBytes);
  if (!('kind' in response) || response.kind !== 'json') return undefined;
  const fields = fieldsOf(error);
  return {
    kind: 'error',
    status: error.getStatus(),
    response: response.json,
    message: error.message,
    type: builtInType(error),
    name: error.name,
    ...(fields === undefined ? {} : { fields }),
  };
}

/** The error to throw at a replay: the application's own filters answer it as they answered the first. */
export function restoreHttpError(stored: StoredError): HttpException {
  const { response, status, type, name, message, fields } = stored;
  const error = new HttpException(JSON.parse(response) as string | Record<string, unknown>, status);
  const known = builtIn(type);
  // a filter may catch by class
  if (known) Object.setPrototypeOf(error, known.prototype);
  return Object.assign(error, fields === undefined ? {} : (JSON.parse(fields) as object), { name, message });
}

/** What an application's own exception carries besides. */
function fieldsOf(error: HttpException): string | undefined {
  const entries = Object.entries(error).filter(
    ([name, value]) => !NOT_FIELDS.has(name) && value !== undefined,
  );
  if (entries.length === 0) return undefined;
  try {
    return JSON.stringify(Object.fromEntries(entries));
  } catch {
    return undefined;
  }
}

/** The nearest of Nest's own classes: it exists in every process. */
function builtInType(error: HttpException): string {
  for (let at: unknown = Object.getPrototypeOf(error); at; at = Object.getPrototypeOf(at)) {
    const type = (at as { constructor: { name: string } }).constructor;
    if (builtIn(type.name) === type) return type.name;
  }
  return HttpException.name;
}

function builtIn(name: string): typeof HttpException | undefined {
  const found = (common as Record<string, unknown>)[name];
  if (typeof found !== 'function') return undefined;
  return found === HttpException || found.prototype instanceof HttpException
    ? (found as typeof HttpException)
    : undefined;
}
