import { Database } from '../src/database/database.js';
import type { DemoOptions } from './options.js';
import type { Message } from './sender.js';

/** What is sent in one run. Every id carries the run's name, so that old data never counts. */
export interface Scenario {
  run: string;
  sku: string;
  callbacks: Message[];
  buyers: Message[];
}

const PRICE = 1_990;

export function planScenario(run: string, { orders, deliveries, buyers }: DemoOptions): Scenario {
  const sku = `sku-${run}`;
  const notifications = Array.from({ length: orders }, (_, n): Message => {
    const transactionId = `transaction-${run}-${n}`;
    return {
      path: '/payments/callback',
      body: { id: `notification-${run}-${n}`, orderId: orderId(run, n), transactionId, amount: PRICE },
      reference: transactionId,
    };
  });
  return {
    run,
    sku,
    callbacks: shuffled(Array.from({ length: deliveries }, () => notifications).flat()),
    buyers: Array.from({ length: buyers }, (_, n): Message => {
      const requestId = `buyer-${run}-${n}`;
      return {
        path: `/inventory/${sku}/deduct`,
        body: { quantity: 1 },
        headers: { 'x-request-id': requestId },
        reference: `deduct:${requestId}`,
      };
    }),
  };
}

/** The orders that wait for their payment, and the article that everybody wants. */
export async function prepareDatabase(
  database: Database,
  { run, sku }: Scenario,
  options: DemoOptions,
): Promise<void> {
  const prepaid = `prepaid-${run}`;
  const created_at = new Date().toISOString();
  await database.transaction(async (trx) => {
    await trx
      .insertInto('inventory')
      .values([
        { sku, price: PRICE, stock: options.units },
        { sku: prepaid, price: PRICE, stock: options.orders },
      ])
      .execute();
    for (let n = 0; n < options.orders; n += 1) {
      await trx
        .insertInto('orders')
        .values({
          id: orderId(run, n),
          sku: prepaid,
          quantity: 1,
          amount: PRICE,
          status: 'pending',
          created_at,
          paid_at: null,
        })
        .execute();
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
