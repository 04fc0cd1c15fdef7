import type { SampleData } from './seed.js';

/** Three lines for a terminal. Paste one twice and its second answer says `Idempotent-Replayed: true`. */
export function curlLines(url: string, { run, sku, order }: SampleData): string[] {
  const post = (path: string, body: object, headers: Record<string, string> = {}): string =>
    [
      `curl -i ${url}${path}`,
      ...Object.entries({ 'Content-Type': 'application/json', ...headers }).map(
        ([name, value]) => `-H '${name}: ${value}'`,
      ),
      `-d '${JSON.stringify(body)}'`,
    ].join(' ');
  return [
    post('/payments/callback', {
      id: `notification-${run}`,
      orderId: order.id,
      transactionId: `transaction-${run}`,
      amount: order.amount,
    }),
    post('/orders', { sku, quantity: 1 }, { 'X-Request-Id': `order-${run}` }),
    post(`/inventory/${sku}/deduct`, { quantity: 2 }, { 'X-Request-Id': `deduct-${run}` }),
  ];
}
