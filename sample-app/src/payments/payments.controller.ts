import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { CurrentLock, DistributedLock, Idempotent, type Lock } from 'nestjs-redis-lock';
import { PaymentNotificationDto } from './payments.dto.js';
import { PaymentsService } from './payments.service.js';

/** What providers want to read, and nothing else: they take any other body or status as "send it again". */
interface ProviderReply {
  code: 'SUCCESS' | 'IN_PROGRESS';
  message: string;
}

@Controller('payments')
export class PaymentsController {
  constructor(private readonly payments: PaymentsService) {}

  /**
   * A provider sends one notification many times: after a time-out, from several servers at once, again hours later.
   *
   * - `@HttpCode(200)`: Nest answers POST with 201, and WeChat Pay, for one, accepts only 200 and 204.
   * - `key`, not a header: the notification's own id is what stays the same; the rest of a delivery may differ.
   * - `ttl: '72h'`: providers repeat for a day and longer (WeChat Pay 24 h 04 min, Alipay 24 h 22 min, Stripe 3 days).
   * - The lock is the order's: two different notifications about one order must not decide at the same time.
   * - `waitTimeout: '2s'`: a provider hangs up after about 5 s, so an answer has to come before that.
   * - A repeat while the first still runs gets no success: if the first fails after that, nobody would send it again.
   *
   * A real platform verifies the provider's signature in a guard: guards run before all this.
   */
  @Post('callback')
  @HttpCode(200)
  @Idempotent({
    key: 'payment:<body.id>',
    ttl: '72h',
    inFlightReply: (): ProviderReply => ({
      code: 'IN_PROGRESS',
      message: 'This notification is being handled: send it again.',
    }),
  })
  @DistributedLock('lock:order:<body.orderId>', { waitTimeout: '2s' })
  async callback(
    @Body() notification: PaymentNotificationDto,
    @CurrentLock() lock: Lock,
  ): Promise<ProviderReply> {
    await this.payments.settle(notification, lock);
    return { code: 'SUCCESS', message: 'OK' };
  }
}
