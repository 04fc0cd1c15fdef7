import { Database } from '../src/database/database.js';
import type { PaymentProvider } from '../src/database/schema.js';
import { HOT_MERCHANT, bookTaken, stockGate } from '../src/gates/gate.js';
import { signedNotice } from '../src/payments/sample-provider.js';
import type { DemoOptions } from './options.js';
import type { Message } from './sender.js';

/** What is sent in one run. Every id carries the run's name, so that old data never counts. */
export interface Scenario {
  run: string;
  sku: string;
  merchantId: string;
  callbacks: Message[];
  buyers: Message[];
}

const PRICE = 1_990;
const AN_HOUR_MS = 3_600_000;

/** The three entry points that charge one merchant: the web shop, the mini-program, the open API. */
const PROVIDERS: readonly PaymentProvider[] = ['stripe', 'wechat', 'open-api'];

export function planScenario(run: string, { orders, deliveries, buyers }: DemoOptions): Scenario {
  const sku = `sku-${run}`;
  const merchantId = `${HOT_MERCHANT}${run}`;
  const numbers = Array.from({ length: orders }, (_, n) => n);
  return {
    run,
    sku,
    merchantId,
    // Each delivery is signed for itself, as providers do.
    callbacks: shuffled(
      Array.from({ length: deliveries }, () => numbers.map((n) => delivery(run, n, merchantId))).flat(),
    ),
    buyers: Array.from({ length: buyers }, (_, n) => purchase(sku, `buyer-${run}-${n}`)),
  };
}

function delivery(run: string, n: number, merchantId: string): Message {
  const transactionId = `transaction-${run}-${n}`;
  const signed = signedNotice({
    provider: PROVIDERS[n % PROVIDERS.length]!,
    notificationId: `notification-${run}-${n}`,
    orderId: orderId(run, n),
    transactionId,
    amount: PRICE,
    merchantId,
  });
  return { ...signed, reference: transactionId };
}

/** One unit for one buyer. */
export const purchase = (sku: string, requestId: string): Message => ({
  path: `/inventory/${sku}/deduct`,
  body: JSON.stringify({ quantity: 1 }),
  headers: { 'Content-Type': 'application/json', 'X-Request-Id': requestId },
  reference: `deduct:${requestId}`,
});

export const cancellation = (id: string): Message => ({
  path: `/orders/${id}/cancel`,
  body: '',
  headers: {},
  reference: `cancel:${id}`,
});

/** The orders that wait for their payment, their merchant's prepaid quota, and the article that everybody wants. */
export async function prepareDatabase(
  database: Database,
  { run, sku, merchantId }: Scenario,
  options: DemoOptions,
): Promise<void> {
  const waiting = `waiting-${run}`;
  const now = Date.now();
  await database.transaction(async (trx) => {
    await trx
      .insertInto('merchants')
      .values({ id: merchantId, granted: options.orders, opened_at: null })
      .execute();
    await trx
      .insertInto('inventory')
      .values([
        { sku, merchant_id: merchantId, price: PRICE, stock: options.units, opened_at: null },
        { sku: waiting, merchant_id: merchantId, price: PRICE, stock: options.orders, opened_at: null },
      ])
      .execute();
    for (let n = 0; n < options.orders; n += 1) {
      const id = orderId(run, n);
      await trx
        .insertInto('orders')
        .values({
          id,
          sku: waiting,
          merchant_id: merchantId,
          quantity: 1,
          amount: PRICE,
          status: 'pending',
          created_at: new Date(now).toISOString(),
          expires_at: new Date(now + AN_HOUR_MS).toISOString(),
          paid_at: null,
          cancelled_at: null,
        })
        .execute();
      await bookTaken(trx, { operationId: `order:${id}`, gate: stockGate(waiting), orderId: id, amount: 1 });
    }
  });
}

const orderId = (run: string, n: number): string => `order-${run}-${n}`;

function shuffled<T>(list: T[]): T[] {
  for (let i = list.length - 1; i > 0; i -= 1) {
    const j = Math.floor(Math.random() * (i + 1));
    [list[i], list[j]] = [list[j]!, list[i]!];
  }
  return list;
}
