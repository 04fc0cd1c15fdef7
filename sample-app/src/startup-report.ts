import { signedNotice } from './payments/sample-provider.js';
import type { SampleData } from './seed.js';

/** Three lines for a terminal. Paste one twice and its second answer says `Idempotent-Replayed: true`. */
export function curlLines(url: string, { run, sku, order }: SampleData): string[] {
  const post = (path: string, body: string, headers: Record<string, string>): string =>
    [
      `curl -i ${url}${path}`,
      ...Object.entries(headers).map(([name, value]) => `-H '${name}: ${value}'`),
      `-d '${body}'`,
    ].join(' ');
  // Signed for a day ahead: only too old a signature is refused, and a line may be pasted later.
  const timestamp = Math.floor(Date.now() / 1_000) + 86_400;
  const callback = signedNotice(
    {
      provider: 'stripe',
      notificationId: `evt-${run}`,
      orderId: order.id,
      transactionId: `transaction-${run}`,
      amount: order.amount,
    },
    { timestamp },
  );
  return [
    post(callback.path, callback.body, callback.headers),
    post('/orders', json({ sku, quantity: 1 }), withId(`order-${run}`)),
    post(`/inventory/${sku}/deduct`, json({ quantity: 2 }), withId(`deduct-${run}`)),
  ];
}

const json = (body: object): string => JSON.stringify(body);

const withId = (id: string): Record<string, string> => ({
  'Content-Type': 'application/json',
  'X-Request-Id': id,
});
