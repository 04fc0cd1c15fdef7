import { Body, Controller, HttpCode, Param, Post, UseGuards } from '@nestjs/common';
import { CurrentLock, DistributedLock, Idempotent, wechatPayV3Callback, type Lock } from 'nestjs-redis-lock';
import { WechatNotificationDto } from './payments.dto.js';
import { SettlementService } from './settlement.service.js';
import { WechatSignatureGuard } from './signatures/wechat-signature.guard.js';
import { StartPaymentService, type PaymentStart } from './start-payment.service.js';

/** The mini-program's entry point: paid with WeChat Pay. */
@Controller()
export class WechatController {
  constructor(
    private readonly settlement: SettlementService,
    private readonly starting: StartPaymentService,
  ) {}

  @Post('mini-program/orders/:id/pay')
  @HttpCode(200)
  @DistributedLock('lock:order:<params.id>', { waitTimeout: '2s' })
  pay(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<PaymentStart> {
    return this.starting.start(id, 'wechat', lock);
  }

  /**
   * A provider sends one notification many times: after a time-out, from several servers at once, again hours later.
   *
   * - The guard stands in front of everything: what is forged leaves no record and takes no lock.
   * - `@HttpCode(200)`: Nest answers POST with 201, and WeChat Pay accepts only 200 and 204.
   * - `wechatPayV3Callback`: by the notification's id for 72 h; a repeat while the first still runs gets no success:
   *   if the first fails after that, nobody would send it again.
   * - The lock is the order's, not the shop's: other orders do not wait. Two notifications about one order do.
   * - `onLost: 'report'`: what is committed was committed under the fence, so it stands though the lock was lost in the
   *   end. An error instead would leave a record that can only say 409, to every redelivery of a paid order.
   * - `waitTimeout: '2s'`: WeChat Pay hangs up after 5 s, so an answer has to come before that.
   */
  @Post('payments/wechat')
  @HttpCode(200)
  @UseGuards(WechatSignatureGuard)
  @Idempotent({ ...wechatPayV3Callback })
  @DistributedLock('lock:order:<body.resource.out_trade_no>', { waitTimeout: '2s', onLost: 'report' })
  async callback(
    @Body() { id, resource }: WechatNotificationDto,
    @CurrentLock() lock: Lock,
  ): Promise<{ code: 'SUCCESS'; message: string }> {
    const { out_trade_no: orderId, transaction_id: transactionId, amount } = resource;
    await this.settlement.settle(
      { provider: 'wechat', notificationId: id, orderId, transactionId, amount: amount.total },
      lock,
    );
    return { code: 'SUCCESS', message: 'OK' };
  }
}
