import { Module } from '@nestjs/common';
import { StockModule } from '../inventory/stock.module.js';
import { OrdersController } from './orders.controller.js';
import { OrdersService } from './orders.service.js';
import { PlaceOrderService } from './place-order.service.js';

@Module({
  imports: [StockModule],
  controllers: [OrdersController],
  providers: [OrdersService, PlaceOrderService],
  exports: [OrdersService, PlaceOrderService],
})
export class OrdersModule {}
