import { Body, Controller, HttpCode, Param, Post, UseGuards } from '@nestjs/common';
import { CurrentLock, DistributedLock, Idempotent, stripeEvent, type Lock } from 'nestjs-redis-lock';
import { StripeEventDto } from './payments.dto.js';
import { SettlementService } from './settlement.service.js';
import { StripeSignatureGuard } from './signatures/stripe-signature.guard.js';
import { StartPaymentService, type PaymentStart } from './start-payment.service.js';

/** The web shop's entry point: paid with Stripe. */
@Controller()
export class StripeController {
  constructor(
    private readonly settlement: SettlementService,
    private readonly starting: StartPaymentService,
  ) {}

  @Post('orders/:id/pay')
  @HttpCode(200)
  @DistributedLock('lock:order:<params.id>', { waitTimeout: '2s' })
  pay(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<PaymentStart> {
    return this.starting.start(id, 'stripe', lock);
  }

  /** As `WechatController.callback`, in Stripe's shape: events are repeated for three days, by their id. */
  @Post('payments/stripe')
  @HttpCode(200)
  @UseGuards(StripeSignatureGuard)
  @Idempotent({ ...stripeEvent })
  @DistributedLock('lock:order:<body.data.object.metadata.order_id>', { waitTimeout: '2s', onLost: 'report' })
  async callback(
    @Body() { id, data: { object } }: StripeEventDto,
    @CurrentLock() lock: Lock,
  ): Promise<{ received: true }> {
    const { id: transactionId, amount_received: amount, metadata } = object;
    await this.settlement.settle(
      { provider: 'stripe', notificationId: id, orderId: metadata.order_id, transactionId, amount },
      lock,
    );
    return { received: true };
  }
}
