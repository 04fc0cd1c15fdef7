import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { StockService } from '../inventory/stock.service.js';
import { MerchantsService } from '../merchants/merchants.service.js';
import { PlaceOrderService } from '../orders/place-order.service.js';
import type { Order } from '../orders/orders.service.js';

const ARTICLE = { sku: 'sku-1001', merchantId: 'merchant-1', price: 1_990 };
const UNITS = 100;

/** An order that waits for its payment, for the other actions to play with. */
@Injectable()
export class NewOrderAction {
  constructor(
    private readonly stock: StockService,
    private readonly merchants: MerchantsService,
    private readonly placing: PlaceOrderService,
  ) {}

  async run(): Promise<Order> {
    const operationId = `order:page-${randomUUID()}`;
    const article = (await this.stock.list()).find(({ sku }) => sku === ARTICLE.sku);
    if (!article || (article.remaining ?? 0) < 1) {
      const merchants = await this.merchants.list();
      if (!merchants.some(({ id }) => id === ARTICLE.merchantId)) {
        await this.merchants.topUp(ARTICLE.merchantId, UNITS, `top-up:${operationId}`);
      }
      await this.stock.restock(ARTICLE, UNITS, `restock:${operationId}`);
    }
    return this.placing.place({ sku: ARTICLE.sku, quantity: 1, operationId });
  }
}
