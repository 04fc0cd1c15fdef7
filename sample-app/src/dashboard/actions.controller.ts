import { Body, Controller, HttpCode, Post, UseGuards } from '@nestjs/common';
import { ActionsGuard } from './actions.guard.js';
import { RaceDto, SendCallbackDto } from './dashboard.dto.js';
import { KillHolderAction, type KillHolderResult } from './kill-holder.action.js';
import { NewOrderAction } from './new-order.action.js';
import { RaceAction, type RaceResult } from './race.action.js';
import { SendCallbackAction, type SendCallbackResult } from './send-callback.action.js';

/** The page's buttons. They answer when all is over; the page watches meanwhile. */
@Controller('dashboard/actions')
@UseGuards(ActionsGuard)
export class ActionsController {
  constructor(
    private readonly callback: SendCallbackAction,
    private readonly race: RaceAction,
    private readonly holder: KillHolderAction,
    private readonly order: NewOrderAction,
  ) {}

  @Post('send-callback')
  @HttpCode(200)
  sendCallback(@Body() callback: SendCallbackDto): Promise<SendCallbackResult> {
    return this.callback.run(callback);
  }

  @Post('race')
  @HttpCode(200)
  letBuyersRace(@Body() { units }: RaceDto): Promise<RaceResult> {
    return this.race.run(units);
  }

  @Post('kill-holder')
  @HttpCode(200)
  killHolder(): Promise<KillHolderResult> {
    return this.holder.run();
  }

  @Post('new-order')
  async makeOrder(): Promise<{ id: string; amount: number }> {
    const { id, amount } = await this.order.run();
    return { id, amount };
  }
}
