import { Controller, HttpCode, Post, Query } from '@nestjs/common';
import { IsInt, IsOptional, Max, Min } from 'class-validator';
import { Type } from 'class-transformer';
import { StockCountJob, type StockCountReport } from './stock-count.job.js';

export class StockCountQueryDto {
  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(0)
  @Max(60)
  seconds = 6;
}

/** For operators. A real platform puts this behind its own authentication, or on a port of its own. */
@Controller('admin')
export class AdminController {
  constructor(private readonly stockCount: StockCountJob) {}

  /** 409 at once while another process counts: the lock is on the job, so cron and this route exclude each other. */
  @Post('stock-count')
  @HttpCode(200)
  count(@Query() { seconds }: StockCountQueryDto): Promise<StockCountReport> {
    return this.stockCount.run(seconds);
  }
}
