import { Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { isHmac } from './hmac.js';
import { secrets } from './secrets.js';
import { isFresh, signedRequest, wrongSignature } from './signed-request.js';

/** Whom the guard has found, as `request.user`. */
export interface OpenApiUser {
  merchantId: string;
}

/** Lets in what a merchant's own server has signed. A real platform has a secret per merchant, and knows which. */
@Injectable()
export class OpenApiSignatureGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { request, rawBody, header, about } = signedRequest(context);
    const timestamp = header('X-Timestamp');
    if (!isFresh(timestamp)) throw wrongSignature('its time is missing or too old');
    const merchantId = header('X-Merchant-Id');
    const message = `${timestamp}\n${merchantId}\n${request.originalUrl}\n${rawBody}`;
    if (!isHmac(header('X-Signature'), secrets.openApi, message))
      throw wrongSignature('its signature is not the merchant’s');
    Object.assign(request, { user: { merchantId } satisfies OpenApiUser });
    about(request.params.id);
    return true;
  }
}
