import { Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { isHmac } from './hmac.js';
import { secrets } from './secrets.js';
import { isFresh, signedRequest, wrongSignature } from './signed-request.js';

/** Lets in what Stripe has signed, before the idempotency record begins. */
@Injectable()
export class StripeSignatureGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { request, rawBody, header, about } = signedRequest(context);
    // `t=1492774577,v1=5257a8…,v1=…`: more than one v1 while the secret is being changed.
    const parts = header('Stripe-Signature')
      .split(',')
      .map((part) => part.trim().split('=', 2));
    const timestamp = parts.find(([name]) => name === 't')?.[1] ?? '';
    const signatures = parts.flatMap(([name, value]) => (name === 'v1' && value ? [value] : []));
    if (!isFresh(timestamp)) throw wrongSignature('its time is missing or too old');
    // THE REAL VERIFICATION GOES HERE: `stripe.webhooks.constructEvent(rawBody, header, secret)` of Stripe's library.
    // What stands here is the same scheme: an HMAC over time and raw body.
    if (!signatures.some((signature) => isHmac(signature, secrets.stripe, `${timestamp}.${rawBody}`)))
      throw wrongSignature('its signature is not Stripe’s');

    about((request.body as StripeBody).data?.object?.metadata?.order_id);
    return true;
  }
}

interface StripeBody {
  data?: { object?: { metadata?: { order_id?: unknown } } };
}
