import { HttpException } from '@nestjs/common';
import { isRedisLockError, type RedisLockError, type RedisLockErrorCode } from '../errors.js';

/** How an error is answered over HTTP. */
export interface ErrorTableEntry {
  status: number;
  /** `Retry-After`, in seconds. */
  retryAfter?: number;
  /**
   * Replaces the error's own message in the body. By default an answer of 500 and more says nothing about
   * hosts or keys: the error itself is the `cause` of the exception.
   */
  message?: string;
}

/** The HTTP answer of each code. A code that is missing here stays the error that it is. */
export type ErrorTable = Partial<Record<RedisLockErrorCode, ErrorTableEntry>>;

/** The default answers. Override single entries by the token `REDIS_LOCK_ERROR_TABLE`. */
export const DEFAULT_ERROR_TABLE: Readonly<ErrorTable> = Object.freeze({
  LOCK_BUSY: { status: 409, retryAfter: 1 },
  LOCK_TIMEOUT: { status: 409, retryAfter: 1 },
  LOCK_LOST: { status: 500, message: 'The lock was lost while the request ran.' },
  LOCK_ABORTED: { status: 503, message: 'Waiting for the lock was aborted.' },
  LOCK_CLOSED: { status: 503, retryAfter: 1, message: 'The application is shutting down.' },
  LOCK_KEY: { status: 400 },
  STORE_UNAVAILABLE: { status: 503, retryAfter: 1, message: 'The store for locks cannot do its work now.' },
  IDEMPOTENCY_KEY: { status: 400 },
  IDEMPOTENCY_IN_PROGRESS: { status: 409, retryAfter: 1 },
  IDEMPOTENCY_MISMATCH: { status: 422 },
  IDEMPOTENCY_UNREPLAYABLE: { status: 409 },
  QUOTA_EXCEEDED: { status: 409 },
  QUOTA_NOT_FOUND: { status: 404 },
  QUOTA_OPERATION: { status: 409 },
  QUOTA_AMOUNT: { status: 400 },
} satisfies ErrorTable);

/** The default table with the application's entries in place of its own. */
export function errorTable(overrides: ErrorTable | null | undefined): ErrorTable {
  return { ...DEFAULT_ERROR_TABLE, ...overrides };
}

/**
 * Turns an error of this package into the `HttpException` of the table and sets `Retry-After`; any other error
 * comes back as it is.
 *
 * @param response Express's or Fastify's.
 */
export function toHttpException(error: unknown, table: ErrorTable, response: unknown): unknown {
  if (!isRedisLockError(error)) return error;
  const entry = table[error.code];
  if (!entry) return error;
  const { status, retryAfter, message = error.message } = entry;
  if (retryAfter !== undefined) setRetryAfter(response, atMostTheLease(retryAfter, error));
  return new HttpException({ statusCode: status, code: error.code, message }, status, { cause: error });
}

/** An owner's lease that ends sooner is what there is to wait for. */
function atMostTheLease(seconds: number, error: RedisLockError): number {
  const leaseMs: unknown = 'leaseMs' in error ? error.leaseMs : undefined;
  return typeof leaseMs === 'number' ? Math.max(0, Math.min(seconds, Math.floor(leaseMs / 1000))) : seconds;
}

/** Express and Fastify both have `header(name, value)`. */
function setRetryAfter(response: unknown, seconds: number): void {
  const reply = response as
    | { header?: (name: string, value: string) => unknown; headersSent?: boolean; sent?: boolean }
    | null
    | undefined;
  // A handler with @Res() may have answered already: then there is nothing left to say.
  if (typeof reply?.header !== 'function' || reply.headersSent === true || reply.sent === true) return;
  reply.header('Retry-After', String(seconds));
}
