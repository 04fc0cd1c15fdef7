import { Body, Controller, Get, Header, HttpCode, Post } from '@nestjs/common';
import { IsBoolean, IsInt, IsOptional, Max, Min } from 'class-validator';
import { ReconciliationJob } from './reconciliation.job.js';
import { ReconciliationRuns, type ReconciliationProgress } from './reconciliation-runs.service.js';
import { reportTable, type ReconciliationReport } from './report.js';

export class ReconciliationRequestDto {
  @IsOptional()
  @IsBoolean()
  repair = false;

  @IsOptional()
  @IsInt()
  @Min(0)
  @Max(60)
  seconds = 0;
}

/** For operators. A real platform puts this behind its own authentication, or on a port of its own. */
@Controller('reconciliation')
export class ReconciliationController {
  constructor(
    private readonly job: ReconciliationJob,
    private readonly runs: ReconciliationRuns,
  ) {}

  /** Answers with the report when it is done; 409 at once while one runs. */
  @Post()
  @HttpCode(200)
  run(@Body() request: ReconciliationRequestDto): Promise<ReconciliationReport> {
    return this.job.run(request);
  }

  @Get('latest')
  latest(): Promise<ReconciliationReport> {
    return this.runs.latest();
  }

  /** The same for a terminal. */
  @Get('latest.txt')
  @Header('Content-Type', 'text/plain; charset=utf-8')
  async latestTable(): Promise<string> {
    return reportTable(await this.runs.latest());
  }

  @Get('progress')
  progress(): Promise<ReconciliationProgress> {
    return this.runs.progress();
  }
}
