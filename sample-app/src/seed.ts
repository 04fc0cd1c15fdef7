import { randomUUID } from 'node:crypto';
import type { INestApplication } from '@nestjs/common';
import { StockService } from './inventory/stock.service.js';
import { MerchantsService } from './merchants/merchants.service.js';
import { PlaceOrderService } from './orders/place-order.service.js';

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
const QUOTA = 5_000;
const MERCHANTS = ['merchant-1', 'hot-1'] as const;

/** Two merchants with prepaid quota, an article that is in stock, and an order that waits for its payment. */
export async function seed(app: INestApplication): Promise<SampleData> {
  const run = randomUUID().slice(0, 8);
  const merchants = app.get(MerchantsService);
  const known = await merchants.list();
  for (const id of MERCHANTS) {
    const left = known.find((merchant) => merchant.id === id)?.remaining ?? 0;
    if (left < QUOTA / 10) await merchants.topUp(id, QUOTA, `top-up:${id}:${run}`);
  }
  const stock = app.get(StockService);
  const left = (await stock.list()).find(({ sku }) => sku === SKU)?.remaining ?? 0;
  if (left < STOCK / 10) {
    await stock.restock({ sku: SKU, merchantId: MERCHANTS[0], price: PRICE }, STOCK, `restock:${run}`);
  }
  const order = await app
    .get(PlaceOrderService)
    .place({ sku: SKU, quantity: 1, operationId: `order:seed-${run}` });
  return { run, sku: SKU, order };
}
