import type { IdempotentOptions } from '../idempotency.js';
import { ownField } from './own-field.js';

/**
 * Options for a callback of WeChat Pay, API v3: `@Idempotent({ ...wechatPayV3Callback })`.
 *
 * - `key`: the notification's `id`, which all its redeliveries share. A body without it is a 400.
 * - `ttl`: 72 h. WeChat Pay redelivers 15 times, for 24 h 4 min.
 * - `fingerprint`: off. A redelivery is encrypted anew, so its body may differ.
 * - `inFlightReply`: 409 with `{ code: 'FAIL', message }`: redelivered, as by then the first one is done.
 * - `isSuccess`: a reply whose `code` is anything but `SUCCESS` is not kept; without a `code` the status decides.
 *
 * WeChat Pay accepts status 200 and 204 alone, within 5 s, and the status outranks the body: put `@HttpCode(200)`
 * on the handler (Nest's default for POST is 201), and throw an `HttpException` to ask for a redelivery. Verify
 * the signature in a guard.
 *
 * @see "支付成功回调通知" (payment notification), https://pay.weixin.qq.com/docs/partner/apis/partner-h5-payment/payment-notice.html
 * @see "回调通知注意事项" (notes on notifications), https://pay.weixin.qq.com/doc/v3/merchant/4012075420
 */
export const wechatPayV3Callback: Readonly<IdempotentOptions> = Object.freeze({
  key: 'wechat:<body.id>',
  ttl: '72h',
  required: true,
  fingerprint: false,
  inFlightReply: () => ({ code: 'FAIL', message: 'the first delivery is still being processed' }),
  isSuccess: (reply: unknown) => {
    const code = ownField(reply, 'code');
    return code === undefined || code === 'SUCCESS';
  },
});
