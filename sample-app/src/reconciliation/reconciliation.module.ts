import { Module } from '@nestjs/common';
import { GatesModule } from '../gates/gates.module.js';
import { GateComparison } from './gate-comparison.service.js';
import { ReconciliationController } from './reconciliation.controller.js';
import { ReconciliationJob } from './reconciliation.job.js';
import { ReconciliationRuns } from './reconciliation-runs.service.js';
import { RedisRepair } from './redis-repair.service.js';

@Module({
  imports: [GatesModule],
  controllers: [ReconciliationController],
  providers: [ReconciliationJob, ReconciliationRuns, GateComparison, RedisRepair],
})
export class ReconciliationModule {}
