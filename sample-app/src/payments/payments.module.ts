import { Module, RequestMethod, type MiddlewareConsumer, type NestModule } from '@nestjs/common';
import { CallbackActivityMiddleware } from '../activity/callback-activity.middleware.js';
import { MerchantsModule } from '../merchants/merchants.module.js';
import { OrdersModule } from '../orders/orders.module.js';
import { OpenApiController } from './open-api.controller.js';
import { ProviderClient } from './provider.client.js';
import { SettlementService } from './settlement.service.js';
import { StartPaymentService } from './start-payment.service.js';
import { StripeController } from './stripe.controller.js';
import { WechatController } from './wechat.controller.js';

@Module({
  imports: [OrdersModule, MerchantsModule],
  controllers: [WechatController, StripeController, OpenApiController],
  providers: [SettlementService, StartPaymentService, ProviderClient],
})
export class PaymentsModule implements NestModule {
  configure(consumer: MiddlewareConsumer): void {
    consumer.apply(CallbackActivityMiddleware).forRoutes(
      ...['payments/wechat', 'payments/stripe', 'open-api/orders/:id/pay'].map((path) => ({
        path,
        method: RequestMethod.POST,
      })),
    );
  }
}
