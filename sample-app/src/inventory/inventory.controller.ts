import { Body, Controller, Get, Headers, Param, Post } from '@nestjs/common';
import { CurrentLock, DistributedLock, Idempotent, type Lock } from 'nestjs-redis-lock';
import { ActivityService } from '../activity/activity.service.js';
import { PlaceOrderService } from '../orders/place-order.service.js';
import type { Order } from '../orders/orders.service.js';
import { DeductDto, FlashSaleDto } from './inventory.dto.js';
import { StockService, type StockLevel } from './stock.service.js';

@Controller('inventory')
export class InventoryController {
  constructor(
    private readonly stock: StockService,
    private readonly placing: PlaceOrderService,
    private readonly activity: ActivityService,
  ) {}

  @Get()
  list(): Promise<StockLevel[]> {
    return this.stock.list();
  }

  @Get(':sku')
  find(@Param('sku') sku: string): Promise<StockLevel> {
    return this.stock.find(sku);
  }

  /**
   * Many buyers, one number: no lock, because a lock would let them in one at a time. The deduction itself is
   * atomic, and the request id makes a retry safe twice over: the stored reply answers it without running
   * anything, and should that record be lost, the same operation id takes nothing again.
   */
  @Post(':sku/deduct')
  @Idempotent({ header: 'X-Request-Id', required: true, ttl: '24h' })
  deduct(
    @Param('sku') sku: string,
    @Body() { quantity }: DeductDto,
    @Headers('x-request-id') requestId: string,
  ): Promise<Order> {
    return this.placing.place({ sku, quantity, operationId: `deduct:${requestId}` });
  }

  /**
   * One unit per buyer. The lock is the buyer's own, not the article's, so buyers do not wait for each other; and
   * `waitTimeout: 0` tells the second click "409, try later" at once instead of letting clicks pile up.
   */
  @Post(':sku/flash-sale')
  @DistributedLock('lock:flash-sale:<params.sku>:<body.buyer>', { waitTimeout: 0 })
  flashSale(
    @Param('sku') sku: string,
    @Body() { buyer }: FlashSaleDto,
    @CurrentLock() lock: Lock,
  ): Promise<Order> {
    return this.activity.section(lock, () =>
      this.placing.placeOnce({ sku, quantity: 1, operationId: `flash-sale:${sku}:${buyer}` }),
    );
  }
}
