import { Module, type DynamicModule } from '@nestjs/common';
import { StockModule } from '../inventory/stock.module.js';
import { MerchantsModule } from '../merchants/merchants.module.js';
import { OrdersModule } from '../orders/orders.module.js';
import { REDIS_SOURCE, type RedisSource } from '../redis/redis-source.js';
import { ActionsController } from './actions.controller.js';
import { CallbackSender } from './callback-sender.js';
import { DashboardFeed } from './dashboard.feed.js';
import { GatesReader } from './gates.reader.js';
import { KillHolderAction } from './kill-holder.action.js';
import { NewOrderAction } from './new-order.action.js';
import { OwnAddress } from './own-address.js';
import { PageController } from './page.controller.js';
import { RaceAction } from './race.action.js';
import { SendCallbackAction } from './send-callback.action.js';

/** The page at `/`: what is going on, and buttons to break it. Nothing of the shop depends on it. */
@Module({})
export class DashboardModule {
  static forRoot(redis: RedisSource): DynamicModule {
    return {
      module: DashboardModule,
      imports: [StockModule, MerchantsModule, OrdersModule],
      controllers: [PageController, ActionsController],
      providers: [
        { provide: REDIS_SOURCE, useValue: redis },
        DashboardFeed,
        GatesReader,
        OwnAddress,
        CallbackSender,
        NewOrderAction,
        SendCallbackAction,
        RaceAction,
        KillHolderAction,
      ],
    };
  }
}
