import { Body, Controller, Get, Headers, Param, Post } from '@nestjs/common';
import { Idempotent } from 'nestjs-redis-lock';
import { CreateOrderDto } from './orders.dto.js';
import { OrdersService, type Order, type Payment } from './orders.service.js';
import { PlaceOrderService } from './place-order.service.js';

@Controller('orders')
export class OrdersController {
  constructor(
    private readonly orders: OrdersService,
    private readonly placing: PlaceOrderService,
  ) {}

  /**
   * A shop's client repeats this after a time-out with the same X-Request-Id and gets the first reply, not a second
   * order. That holds only if the client itself keeps the id: gateways that write a new one per attempt undo it.
   */
  @Post()
  @Idempotent({ header: 'X-Request-Id', required: true, ttl: '24h' })
  create(
    @Body() { sku, quantity }: CreateOrderDto,
    @Headers('x-request-id') requestId: string,
  ): Promise<Order> {
    return this.placing.place({ sku, quantity, operationId: `order:${requestId}` });
  }

  @Get()
  list(): Promise<Order[]> {
    return this.orders.list();
  }

  @Get(':id')
  async find(@Param('id') id: string): Promise<Order & { payments: Payment[] }> {
    const order = await this.orders.find(id);
    return { ...order, payments: await this.orders.paymentsOf(id) };
  }
}
