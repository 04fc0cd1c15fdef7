import { randomUUID } from 'node:crypto';
import type { INestApplication } from '@nestjs/common';
import { Database } from './database/database.js';
import { StockService } from './inventory/stock.service.js';

/** What there is to try the sample with. */
export interface SampleData {
  /** Names this start: ids made from it are new, whatever Redis and the database still remember. */
  run: string;
  sku: string;
  order: { id: string; amount: number };
}

const SKU = 'sku-1001';
const PRICE = 1_990;
const STOCK = 1_000;

/** An article that is in stock and an order that waits for its payment. */
export async function seed(app: INestApplication): Promise<SampleData> {
  const run = randomUUID().slice(0, 8);
  const stock = app.get(StockService);
  const left = (await stock.list()).find(({ sku }) => sku === SKU)?.remaining ?? 0;
  if (left < STOCK / 10) await stock.restock(SKU, PRICE, STOCK, `restock:${run}`);
  const order = { id: `order-${run}`, amount: PRICE };
  await app.get(Database).run((db) =>
    db
      .insertInto('orders')
      .values({
        ...order,
        sku: SKU,
        quantity: 1,
        status: 'pending',
        created_at: new Date().toISOString(),
        paid_at: null,
      })
      .execute(),
  );
  return { run, sku: SKU, order };
}
