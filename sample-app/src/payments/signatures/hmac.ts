import { createHmac, timingSafeEqual } from 'node:crypto';

export const hmac = (secret: string, message: string): string =>
  createHmac('sha256', secret).update(message).digest('hex');

/** Takes the same time wherever the first difference is: else a signature could be guessed byte by byte. */
export function isHmac(signature: string, secret: string, message: string): boolean {
  const given = Buffer.from(signature);
  const right = Buffer.from(hmac(secret, message));
  return given.length === right.length && timingSafeEqual(given, right);
}
