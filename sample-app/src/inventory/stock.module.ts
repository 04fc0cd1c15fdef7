import { Module } from '@nestjs/common';
import { GatesModule } from '../gates/gates.module.js';
import { StockService } from './stock.service.js';

@Module({
  imports: [GatesModule],
  providers: [StockService],
  exports: [StockService],
})
export class StockModule {}
