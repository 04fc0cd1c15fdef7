import { Catch, HttpException, type ArgumentsHost } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import type { Response } from 'express';

const CODES: Record<number, string> = {
  400: 'BAD_REQUEST',
  401: 'UNAUTHORIZED',
  404: 'NOT_FOUND',
  413: 'BODY_TOO_LARGE',
  415: 'UNSUPPORTED_BODY',
};

/**
 * Gives every error the one shape `{ statusCode, code, message }`: callers decide on `code`, people read `message`.
 * What is thrown with a code keeps it; this is for the rest, Nest's own and the body parser's.
 */
@Catch()
export class FaultFilter extends BaseExceptionFilter {
  override catch(exception: unknown, host: ArgumentsHost): void {
    const fault = this.withCode(exception);
    const response = host.switchToHttp().getResponse<Response>();
    response.locals.fault = codeOf(fault) ?? 'INTERNAL';
    // oxlint-disable-next-line promise/valid-params -- a filter's method, not a promise's
    super.catch(fault, host);
  }

  private withCode(exception: unknown): unknown {
    if (exception instanceof HttpException) {
      if (codeOf(exception) !== undefined) return exception;
      return coded(
        exception.getStatus(),
        exception.message,
        isMalformed(exception) ? 'MALFORMED_BODY' : undefined,
      );
    }
    // The body parser's errors: too large, an unknown encoding, an aborted request.
    return this.isHttpError(exception) ? coded(exception.statusCode, exception.message ?? '') : exception;
  }
}

function codeOf(exception: unknown): string | undefined {
  if (!(exception instanceof HttpException)) return undefined;
  const body = exception.getResponse() as { code?: unknown };
  return typeof body.code === 'string' ? body.code : undefined;
}

/** Nest turns the body parser's SyntaxError into a 400 of its own. */
const isMalformed = (exception: HttpException): boolean =>
  exception.getStatus() === 400 && exception.message.includes('JSON');

const coded = (statusCode: number, message: string, code = CODES[statusCode]): HttpException =>
  new HttpException({ statusCode, code: code ?? `HTTP_${statusCode}`, message }, statusCode);
