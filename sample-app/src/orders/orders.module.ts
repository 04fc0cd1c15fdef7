import { Module } from '@nestjs/common';
import { GatesModule } from '../gates/gates.module.js';
import { StockModule } from '../inventory/stock.module.js';
import { CancelOrderService } from './cancel-order.service.js';
import { ExpireOrdersJob } from './expire-orders.job.js';
import { OrdersController } from './orders.controller.js';
import { OrdersService } from './orders.service.js';
import { PlaceOrderService } from './place-order.service.js';

@Module({
  imports: [GatesModule, StockModule],
  controllers: [OrdersController],
  providers: [OrdersService, PlaceOrderService, CancelOrderService, ExpireOrdersJob],
  exports: [OrdersService, PlaceOrderService, CancelOrderService, ExpireOrdersJob],
})
export class OrdersModule {}
