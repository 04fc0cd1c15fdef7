import { Module } from '@nestjs/common';
import { StockModule } from '../inventory/stock.module.js';
import { AdminController } from './admin.controller.js';
import { StockCountJob } from './stock-count.job.js';

@Module({
  imports: [StockModule],
  controllers: [AdminController],
  providers: [StockCountJob],
})
export class AdminModule {}
