import { Module } from '@nestjs/common';
import { OrdersModule } from '../orders/orders.module.js';
import { InventoryController } from './inventory.controller.js';
import { StockModule } from './stock.module.js';

/** The routes of the stock. Selling makes orders, so this stands above orders; the stock itself stands below. */
@Module({
  imports: [StockModule, OrdersModule],
  controllers: [InventoryController],
})
export class InventoryModule {}
