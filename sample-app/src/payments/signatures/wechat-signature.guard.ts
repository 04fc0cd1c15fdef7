import { createDecipheriv } from 'node:crypto';
import { BadRequestException, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { isHmac } from './hmac.js';
import { secrets } from './secrets.js';
import { isFresh, signedRequest, wrongSignature } from './signed-request.js';

const TAG_BYTES = 16;

/**
 * Lets in what WeChat Pay has signed, and decrypts it. A guard, because guards run before the idempotency record
 * begins: a forged message must not be able to take a real notification's place in the record.
 */
@Injectable()
export class WechatSignatureGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { request, rawBody, header, about } = signedRequest(context);
    const timestamp = header('Wechatpay-Timestamp');
    const message = `${timestamp}\n${header('Wechatpay-Nonce')}\n${rawBody}\n`;
    if (!isFresh(timestamp)) throw wrongSignature('its time is missing or too old');
    // THE REAL VERIFICATION GOES HERE: WeChat Pay signs this very message with RSA and SHA-256. Take the platform
    // certificate (or public key) that `Wechatpay-Serial` names and verify with `crypto.verify('RSA-SHA256', …)`.
    // The sample has no certificate and uses an HMAC over the same message.
    if (!isHmac(header('Wechatpay-Signature'), secrets.wechatSigning, message))
      throw wrongSignature('its signature is not WeChat Pay’s');

    // In the place of the ciphertext: keys, lock and DTO read it from the body.
    const body = request.body as { resource?: unknown };
    body.resource = decrypt(body.resource);
    about((body.resource as { out_trade_no?: unknown }).out_trade_no);
    return true;
  }
}

/** As WeChat Pay does it: AES-256-GCM with the APIv3 key, the tag behind the text. */
function decrypt(resource: unknown): unknown {
  try {
    const { ciphertext, nonce, associated_data } = resource as Record<string, string>;
    const bytes = Buffer.from(ciphertext!, 'base64');
    const decipher = createDecipheriv('aes-256-gcm', secrets.wechatApiV3, nonce!);
    decipher.setAAD(Buffer.from(associated_data ?? ''));
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    const text = Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]);
    const transaction = JSON.parse(text.toString('utf8')) as unknown;
    if (typeof transaction === 'object' && transaction !== null) return transaction;
  } catch {
    // Whatever it is, the answer is the same.
  }
  throw new BadRequestException({
    statusCode: 400,
    code: 'UNREADABLE_RESOURCE',
    message: 'The field resource cannot be decrypted with our APIv3 key.',
  });
}
