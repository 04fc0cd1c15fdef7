import { setTimeout as sleep } from 'node:timers/promises';
import { ConflictException, Injectable, Logger } from '@nestjs/common';
import { CurrentLock, DistributedLock, type Lock } from 'nestjs-redis-lock';
import { Database } from '../database/database.js';
import { GatesService } from '../gates/gates.service.js';
import { wrongPayments } from './database-view.js';
import { GateComparison } from './gate-comparison.service.js';
import { RECONCILIATION_LOCK, ReconciliationRuns } from './reconciliation-runs.service.js';
import { RedisRepair } from './redis-repair.service.js';
import type { Difference, ReconciliationReport } from './report.js';

export interface ReconciliationRequest {
  /** Brings Redis to what the database has. @default false */
  repair?: boolean;
  /** How long it takes at least, in seconds: real ones are slow by themselves. @default 0 */
  seconds?: number;
}

const TTL_MS = 2_000;
const LOOK_EVERY_MS = 100;

/**
 * A slow job that only one process may run at a time. Its lease is far shorter than its work: the watchdog renews it
 * while the job runs, and a process that dies blocks the next run for two seconds, not for the length of the job. (A
 * ttl "long enough for the job" would be a guess, and wrong on the day when there is most to do.)
 */
@Injectable()
export class ReconciliationJob {
  private readonly logger = new Logger(ReconciliationJob.name);

  constructor(
    private readonly database: Database,
    private readonly gates: GatesService,
    private readonly comparison: GateComparison,
    private readonly redisRepair: RedisRepair,
    private readonly runs: ReconciliationRuns,
  ) {}

  /** @throws ConflictException RECONCILIATION_RUNNING at once while one runs, in whichever process. */
  @DistributedLock(RECONCILIATION_LOCK, {
    ttl: TTL_MS,
    waitTimeout: 0,
    maxHold: '30m',
    onBusy: () => {
      throw new ConflictException({
        statusCode: 409,
        code: 'RECONCILIATION_RUNNING',
        message: 'A reconciliation is running: GET /reconciliation/progress tells how far it is.',
      });
    },
  })
  async run(
    { repair = false, seconds = 0 }: ReconciliationRequest,
    @CurrentLock() lock?: Lock,
  ): Promise<ReconciliationReport> {
    if (!lock) throw new Error('The reconciliation runs under its lock only.');
    const watched = watchLease(lock);
    try {
      const { id, startedAt, ...found } = await this.reconcile(repair, seconds * 1_000, lock);
      const finishedAt = new Date().toISOString();
      const report = { id, startedAt, finishedAt, ...found, lock: { ttlMs: TTL_MS, ...watched.told() } };
      lock.assertHeld();
      await this.runs.finish(report);
      return report;
    } finally {
      watched.stop();
    }
  }

  private async reconcile(
    repair: boolean,
    atLeastMs: number,
    lock: Lock,
  ): Promise<Pick<ReconciliationReport, 'id' | 'startedAt' | 'lines' | 'differences' | 'repairs'>> {
    const id = lock.fencingToken;
    const gates = await this.gates.all();
    const startedAt = await this.runs.begin(id, gates.length + 1);
    await this.runs.advance(id, 0, 'comparing orders with payments');
    const differences: Difference[] = (await wrongPayments(this.database)).map(
      ({ id: orderId, status, paid }) => ({
        kind: 'database',
        orderId,
        amount: paid,
        text: `Order ${orderId} is ${status}, and ${paid} is booked as paid for it`,
      }),
    );
    const lines: ReconciliationReport['lines'] = [];
    const repairs: string[] = [];
    for (const [index, gate] of gates.entries()) {
      await this.runs.advance(id, index + 1, `comparing ${gate.key}`);
      // The signal stops the run when the lock is lost: what has lost its exclusion must not go on.
      await sleep(atLeastMs / gates.length, undefined, { signal: lock.signal });
      const comparison = await this.comparison.compare(gate, lock.signal);
      lines.push(comparison.line);
      differences.push(...comparison.differences);
      if (repair && comparison.differences.some(({ kind }) => kind !== 'database'))
        repairs.push(...(await this.redisRepair.repair(gate, comparison, lock)));
    }
    for (const { text } of differences) this.logger.warn(text);
    return { id, startedAt, lines, differences, repairs };
  }
}

/** Looks at the lease while the job runs, for the report: that it never came near its end is the watchdog's work. */
function watchLease(lock: Lock): {
  told(): { heldMs: number; leastRemainingMs: number };
  stop(): void;
} {
  const startedAt = performance.now();
  let least = lock.remainingMs;
  const timer = setInterval(() => (least = Math.min(least, lock.remainingMs)), LOOK_EVERY_MS).unref();
  return {
    told: () => ({ heldMs: Math.round(performance.now() - startedAt), leastRemainingMs: Math.round(least) }),
    stop: () => clearInterval(timer),
  };
}
