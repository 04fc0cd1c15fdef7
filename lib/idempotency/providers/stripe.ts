import type { IdempotentOptions } from '../idempotency.js';
import { ownField } from './own-field.js';

const REDIRECTS_FROM = 300;

/**
 * Options for a webhook event of Stripe: `@Idempotent({ ...stripeEvent })`.
 *
 * - `key`: the event's `id`, which all its deliveries share. A body without it is a 400.
 * - `ttl`: 96 h. Stripe redelivers for up to three days.
 * - `fingerprint`: off. `pending_webhooks` may differ between deliveries.
 * - `inFlightReply`: 409 with `{ received: false }`: every status but 2xx is redelivered.
 * - `isSuccess`: a redirect, which Stripe takes for a failure, or `received: false` is not kept.
 *
 * Two events of Stripe's can tell of one change: also check the state of the object (`data.object.id`). Where two
 * routes get the same events, give each a `scope` of its own, or the second gets the reply of the first. Verify
 * `Stripe-Signature` in a guard, over the raw body (`rawBody: true` of `NestFactory.create`).
 *
 * @see "Receive Stripe events in your webhook endpoint" (handle duplicate events; automatic retries),
 *   https://docs.stripe.com/webhooks
 * @see "The Event object", https://docs.stripe.com/api/events/object
 */
export const stripeEvent: Readonly<IdempotentOptions> = Object.freeze({
  key: 'stripe:<body.id>',
  ttl: '96h',
  required: true,
  fingerprint: false,
  inFlightReply: () => ({ received: false }),
  isSuccess: (reply: unknown, status: number) =>
    status < REDIRECTS_FROM && ownField(reply, 'received') !== false,
});
