import { UnauthorizedException, type ExecutionContext } from '@nestjs/common';
import type { RawBodyRequest } from '@nestjs/common';
import type { Request, Response } from 'express';
import { SIGNATURE_TOLERANCE_S } from './secrets.js';

/** What a signature guard looks at. */
export interface SignedRequest {
  request: RawBodyRequest<Request>;
  /** The bytes as they came: a body that was parsed and written again is another text, with another signature. */
  rawBody: string;
  header(name: string): string;
  /** Tells the activity feed whom this is about. */
  about(orderId: unknown): void;
}

export function signedRequest(context: ExecutionContext): SignedRequest {
  const http = context.switchToHttp();
  const request = http.getRequest<RawBodyRequest<Request>>();
  const response = http.getResponse<Response>();
  return {
    request,
    rawBody: request.rawBody?.toString('utf8') ?? '',
    header: (name) => request.get(name) ?? '',
    about: (orderId) => {
      if (typeof orderId === 'string') response.locals.orderId = orderId;
    },
  };
}

/** Whether a signature's time (in seconds since 1970) is recent enough. Only age counts, as in Stripe's own library. */
export function isFresh(timestamp: string): boolean {
  return /^\d{1,12}$/.test(timestamp) && Date.now() / 1_000 - Number(timestamp) <= SIGNATURE_TOLERANCE_S;
}

export const wrongSignature = (why: string): UnauthorizedException =>
  new UnauthorizedException({
    statusCode: 401,
    code: 'WRONG_SIGNATURE',
    message: `This does not come from the provider: ${why}.`,
  });
