import { Body, Controller, Get, Headers, HttpCode, Param, Post } from '@nestjs/common';
import { CurrentLock, DistributedLock, Idempotent, type Lock } from 'nestjs-redis-lock';
import { CancelOrderService } from './cancel-order.service.js';
import { CreateOrderDto } from './orders.dto.js';
import { OrdersService, type Order, type Payment } from './orders.service.js';
import { PlaceOrderService } from './place-order.service.js';

@Controller('orders')
export class OrdersController {
  constructor(
    private readonly orders: OrdersService,
    private readonly placing: PlaceOrderService,
    private readonly cancelling: CancelOrderService,
  ) {}

  /**
   * A shop's client repeats this after a time-out with the same X-Request-Id and gets the first reply, not a second
   * order. That holds only if the client itself keeps the id: gateways that write a new one per attempt undo it.
   *
   * `onConcurrent: 'wait'`: the second click of a double click waits for the first one's order and gets it too; by
   * default it would be told 409, which a person would take for a failure.
   */
  @Post()
  @Idempotent({ header: 'X-Request-Id', required: true, ttl: '24h', onConcurrent: 'wait' })
  create(
    @Body() { sku, quantity }: CreateOrderDto,
    @Headers('x-request-id') requestId: string,
  ): Promise<Order> {
    return this.placing.place({ sku, quantity, operationId: `order:${requestId}` });
  }

  /** Safe to repeat without a record: a cancelled order stays cancelled, and gives its units back once. */
  @Post(':id/cancel')
  @HttpCode(200)
  @DistributedLock('lock:order:<params.id>', { waitTimeout: '2s' })
  cancel(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<Order> {
    return this.cancelling.cancel(id, lock);
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
