import { Body, Controller, Get, Headers, HttpCode, Param, Post } from '@nestjs/common';
import { Idempotent } from 'nestjs-redis-lock';
import { TopUpDto } from './merchants.dto.js';
import { MerchantsService, type MerchantLevel } from './merchants.service.js';

@Controller('merchants')
export class MerchantsController {
  constructor(private readonly merchants: MerchantsService) {}

  @Get()
  list(): Promise<MerchantLevel[]> {
    return this.merchants.list();
  }

  @Get(':id')
  find(@Param('id') id: string): Promise<MerchantLevel> {
    return this.merchants.find(id);
  }

  /** A platform lets only its own billing do this. */
  @Post(':id/top-up')
  @HttpCode(200)
  @Idempotent({ header: 'X-Request-Id', required: true, ttl: '24h' })
  async topUp(
    @Param('id') id: string,
    @Body() { amount }: TopUpDto,
    @Headers('x-request-id') requestId: string,
  ): Promise<MerchantLevel> {
    await this.merchants.find(id);
    await this.merchants.topUp(id, amount, `top-up:${requestId}`);
    return this.merchants.find(id);
  }
}
