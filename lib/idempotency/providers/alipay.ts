import type { IdempotentOptions } from '../idempotency.js';

/**
 * Options for an asynchronous notification of Alipay: `@Idempotent({ ...alipayCallback })`.
 *
 * - `key`: `notify_id`, which all redeliveries share. A body without it is a 400.
 * - `ttl`: 72 h. Alipay redelivers for 24 h 22 min.
 * - `fingerprint`: off. `notify_time` and `sign` differ per delivery.
 * - `inFlightReply`: 409 with the text `fail`: anything but `success` is redelivered.
 * - `isSuccess`: only the text `success`, exactly; no other reply is kept.
 *
 * The body is form encoded, which Nest parses on Express and on Fastify. Verify the signature in a guard.
 *
 * @see "异步通知说明" (asynchronous notifications), https://opendocs.alipay.com/open/270/105902
 * @see "What is asynchronous notification?",
 *   https://global.alipay.com/developer/helpcenter/detail?categoryId=67617&knowId=201602452303&sceneCode=AC_DEV
 */
export const alipayCallback: Readonly<IdempotentOptions> = Object.freeze({
  key: 'alipay:<body.notify_id>',
  ttl: '72h',
  required: true,
  fingerprint: false,
  inFlightReply: () => 'fail',
  isSuccess: (reply: unknown) => reply === 'success',
});
