import type { CallContext } from '../../call/call-context.js';
import type { IdempotentOptions } from '../idempotency.js';
import { ownField } from './own-field.js';

const ACCEPTED = '[accepted]';
const REDIRECTS_FROM = 300;

/**
 * Options for a standard webhook message of Adyen, in JSON: `@Idempotent({ ...adyenNotification })`.
 *
 * - `key`: `adyen:<pspReference>:<eventCode>:<success>` of `notificationItems[0].NotificationRequestItem`.
 *   Duplicates share `pspReference` and `eventCode`; with another `success` it is news. Of several items each adds
 *   its part, behind a comma. A body without an item, or an item without one of the three, is a 400.
 * - `ttl`: 31 days. Adyen redelivers for up to 30.
 * - `fingerprint`: off. `additionalData` and `eventDate` may differ between deliveries.
 * - `inFlightReply`: 409 with `{ notificationResponse: '[in progress]' }`: every status but 2xx is redelivered.
 * - `isSuccess`: a redirect is not kept, nor a `notificationResponse`, or a text in brackets, that is not
 *   `[accepted]`.
 *
 * JSON messages hold one item. A batch is one record: where one item may come again in another batch, run each
 * with `IdempotencyService.execute`. Adyen waits 10 s: store the message, answer, work on it later. Verify the
 * HMAC signature in a guard.
 *
 * @see "Handle webhook events", https://docs.adyen.com/development-resources/webhooks/handle-webhook-events
 * @see "Troubleshoot webhooks" (retry queue), https://docs.adyen.com/development-resources/webhooks/troubleshoot
 * @see "NotificationRequestItem", https://docs.adyen.com/api-explorer/Webhooks/latest/post/AUTHORISATION
 */
export const adyenNotification: Readonly<IdempotentOptions> = Object.freeze({
  key: ({ body }: CallContext) => keyOf(ownField(body, 'notificationItems')),
  ttl: '31d',
  required: true,
  fingerprint: false,
  inFlightReply: () => ({ notificationResponse: '[in progress]' }),
  isSuccess: (reply: unknown, status: number) => status < REDIRECTS_FROM && !isRefusal(reply),
});

/** Undefined when any part is missing: half a batch must not stand for the whole. */
function keyOf(items: unknown): string | undefined {
  if (!Array.isArray(items) || items.length === 0) return undefined;
  const parts = items.map((item) => partOf(ownField(item, 'NotificationRequestItem')));
  return parts.includes(undefined) ? undefined : `adyen:${parts.join(',')}`;
}

function partOf(item: unknown): string | undefined {
  const success = ownField(item, 'success');
  const parts = [
    ownField(item, 'pspReference'),
    ownField(item, 'eventCode'),
    typeof success === 'boolean' ? String(success) : success,
  ];
  if (!parts.every((part): part is string => typeof part === 'string' && part !== '')) return undefined;
  // so that two different lists never give one key
  return parts.map((part) => part.replace(/[%:,]/g, encodeURIComponent)).join(':');
}

function isRefusal(reply: unknown): boolean {
  const answer = ownField(reply, 'notificationResponse') ?? reply;
  return typeof answer === 'string' && /^\[.*\]$/s.test(answer.trim()) && answer.trim() !== ACCEPTED;
}
