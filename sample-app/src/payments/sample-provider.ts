import { createCipheriv, randomBytes } from 'node:crypto';
import type { PaymentNotice } from './payment.js';
import { hmac } from './signatures/hmac.js';
import { secrets } from './signatures/secrets.js';

/** A request as it goes over the wire: the signature is over exactly this body. */
export interface SignedMessage {
  path: string;
  body: string;
  headers: Record<string, string>;
}

export interface SigningOptions {
  /** Seconds since 1970. @default now */
  timestamp?: number;
}

/**
 * Plays the payment provider, for the demo, the start-up lines, the page and the tests: what it signs, the guards let
 * in. Each call signs anew, as a provider does with each delivery: nonce, time and ciphertext differ.
 */
export function signedNotice(
  notice: PaymentNotice & { merchantId?: string },
  options: SigningOptions = {},
): SignedMessage {
  switch (notice.provider) {
    case 'wechat':
      return signedWechat(wechatBody(notice), options);
    case 'stripe':
      return signedStripe(stripeBody(notice), options);
    case 'open-api': {
      const { orderId, transactionId, amount, notificationId, merchantId = '' } = notice;
      const message = signedOpenApi({ orderId, merchantId }, { transactionId, amount }, options);
      return { ...message, headers: { ...message.headers, 'X-Request-Id': notificationId } };
    }
  }
}

export function signedWechat(body: unknown, { timestamp = now() }: SigningOptions = {}): SignedMessage {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const nonce = randomBytes(16).toString('hex');
  return {
    path: '/payments/wechat',
    body: text,
    headers: {
      'Content-Type': 'application/json',
      'Wechatpay-Timestamp': String(timestamp),
      'Wechatpay-Nonce': nonce,
      'Wechatpay-Serial': 'sample',
      'Wechatpay-Signature': hmac(secrets.wechatSigning, `${timestamp}\n${nonce}\n${text}\n`),
    },
  };
}

export function signedStripe(body: unknown, { timestamp = now() }: SigningOptions = {}): SignedMessage {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return {
    path: '/payments/stripe',
    body: text,
    headers: {
      'Content-Type': 'application/json',
      'Stripe-Signature': `t=${timestamp},v1=${hmac(secrets.stripe, `${timestamp}.${text}`)}`,
    },
  };
}

export function signedOpenApi(
  { orderId, merchantId }: { orderId: string; merchantId: string },
  body: unknown,
  { timestamp = now() }: SigningOptions = {},
): SignedMessage {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const path = `/open-api/orders/${encodeURIComponent(orderId)}/pay`;
  return {
    path,
    body: text,
    headers: {
      'Content-Type': 'application/json',
      'X-Timestamp': String(timestamp),
      'X-Merchant-Id': merchantId,
      'X-Signature': hmac(secrets.openApi, `${timestamp}\n${merchantId}\n${path}\n${text}`),
    },
  };
}

export function wechatBody({ notificationId, orderId, transactionId, amount }: PaymentNotice): object {
  return {
    id: notificationId,
    create_time: new Date().toISOString(),
    event_type: 'TRANSACTION.SUCCESS',
    resource_type: 'encrypt-resource',
    resource: encrypted({
      out_trade_no: orderId,
      transaction_id: transactionId,
      trade_state: 'SUCCESS',
      amount: { total: amount, currency: 'CNY' },
    }),
  };
}

export function stripeBody({ notificationId, orderId, transactionId, amount }: PaymentNotice): object {
  return {
    id: notificationId,
    object: 'event',
    type: 'payment_intent.succeeded',
    pending_webhooks: 1 + Math.floor(Math.random() * 3),
    data: {
      object: {
        id: transactionId,
        object: 'payment_intent',
        amount_received: amount,
        currency: 'eur',
        metadata: { order_id: orderId },
      },
    },
  };
}

/** What WeChat Pay puts into `resource`. */
export function encrypted(transaction: object): Record<string, string> {
  const nonce = randomBytes(6).toString('hex');
  const associated_data = 'transaction';
  const cipher = createCipheriv('aes-256-gcm', secrets.wechatApiV3, nonce);
  cipher.setAAD(Buffer.from(associated_data));
  const bytes = Buffer.concat([
    cipher.update(JSON.stringify(transaction)),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
  return { algorithm: 'AEAD_AES_256_GCM', ciphertext: bytes.toString('base64'), nonce, associated_data };
}

const now = (): number => Math.floor(Date.now() / 1_000);
