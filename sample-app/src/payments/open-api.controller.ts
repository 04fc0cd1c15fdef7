import { Body, Controller, Headers, HttpCode, Param, Post, Req, UseGuards } from '@nestjs/common';
import { CurrentLock, DistributedLock, Idempotent, type Lock } from 'nestjs-redis-lock';
import { OrdersService, unknownOrder, type Order } from '../orders/orders.service.js';
import { OpenApiPaymentDto } from './payments.dto.js';
import { SettlementService } from './settlement.service.js';
import { OpenApiSignatureGuard, type OpenApiUser } from './signatures/open-api-signature.guard.js';

/** The entry point of merchants' own servers: their till took the money and tells of it. */
@Controller('open-api')
export class OpenApiController {
  constructor(
    private readonly settlement: SettlementService,
    private readonly orders: OrdersService,
  ) {}

  /**
   * By the merchant's own request id, which its server keeps over its retries; `scope`, because two merchants may use
   * the same one, and neither must read the other's stored reply. The lock is the same as everywhere.
   */
  @Post('orders/:id/pay')
  @HttpCode(200)
  @UseGuards(OpenApiSignatureGuard)
  @Idempotent({ header: 'X-Request-Id', required: true, ttl: '72h', scope: '<user.merchantId>' })
  @DistributedLock('lock:order:<params.id>', { waitTimeout: '2s', onLost: 'report' })
  async pay(
    @Param('id') orderId: string,
    @Body() { transactionId, amount }: OpenApiPaymentDto,
    @Headers('x-request-id') notificationId: string,
    @Req() { user }: { user: OpenApiUser },
    @CurrentLock() lock: Lock,
  ): Promise<Order> {
    // 404, not 403: nobody learns which orders others have.
    const order = await this.orders.find(orderId);
    if (order.merchant_id !== user.merchantId) throw unknownOrder(orderId);
    await this.settlement.settle(
      { provider: 'open-api', notificationId, orderId, transactionId, amount },
      lock,
    );
    return this.orders.find(orderId);
  }
}
