import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, Logger } from '@nestjs/common';
import { CurrentLock, DistributedLock, type Lock } from 'nestjs-redis-lock';
import { Database } from '../database/database.js';
import { StockService } from '../inventory/stock.service.js';

export interface StockCountLine {
  sku: string;
  stock: number;
  /** The same number from three places; in a quiet shop they agree. */
  sold: number;
  journaled: number;
  grantedByRedis: number | null;
}

export interface StockCountReport {
  lines: StockCountLine[];
  differences: number;
  /** What the watchdog did: the job took `heldMs` under a lease of `ttlMs`, and this much was always left of it. */
  lock: { ttlMs: number; heldMs: number; leastRemainingMs: number; fencingToken: number };
}

const TTL_MS = 2_000;
const LOOK_EVERY_MS = 250;

/**
 * A slow job that only one process may run at a time. Its lease is far shorter than its work: the watchdog renews it
 * while the job runs, and a process that dies blocks the next run for two seconds, not for the length of the job.
 */
@Injectable()
export class StockCountJob {
  private readonly logger = new Logger(StockCountJob.name);

  constructor(
    private readonly database: Database,
    private readonly stock: StockService,
  ) {}

  /** @param seconds how long the count takes at least: real ones are slow by themselves. */
  @DistributedLock('lock:admin:stock-count', { ttl: TTL_MS, waitTimeout: 0, maxHold: '2m' })
  async run(seconds: number, @CurrentLock() lock?: Lock): Promise<StockCountReport> {
    if (!lock) throw new Error('The stock count runs under its lock only.');
    const startedAt = performance.now();
    const elapsed = (): number => Math.round(performance.now() - startedAt);
    let leastRemainingMs = lock.remainingMs;
    let toldAt = 0;
    while (elapsed() < seconds * 1_000) {
      // Aborts with the reason when the lock is lost: a job that has lost its exclusion stops in its step.
      await sleep(LOOK_EVERY_MS, undefined, { signal: lock.signal });
      leastRemainingMs = Math.min(leastRemainingMs, lock.remainingMs);
      if (elapsed() - toldAt < 1_000) continue;
      toldAt = elapsed();
      this.logger.log(
        `Counting for ${toldAt} ms under a lease of ${TTL_MS} ms; ${Math.round(lock.remainingMs)} ms left.`,
      );
    }
    const lines = await this.count();
    lock.assertHeld();
    return {
      lines,
      differences: lines.filter((line) => line.sold !== line.journaled || line.sold !== line.grantedByRedis)
        .length,
      lock: {
        ttlMs: TTL_MS,
        heldMs: elapsed(),
        leastRemainingMs: Math.round(leastRemainingMs),
        fencingToken: lock.fencingToken,
      },
    };
  }

  private async count(): Promise<StockCountLine[]> {
    const [levels, journal] = await Promise.all([
      this.stock.list(),
      this.database.run((db) =>
        db
          .selectFrom('stock_journal')
          .select(({ fn }) => ['sku', fn.sum<number | string>('quantity').as('quantity')])
          .groupBy('sku')
          .execute(),
      ),
    ]);
    const journaled = new Map(journal.map(({ sku, quantity }) => [sku, Number(quantity)]));
    return levels.map(({ sku, stock, sold, remaining }) => ({
      sku,
      stock,
      sold,
      journaled: journaled.get(sku) ?? 0,
      grantedByRedis: remaining === null ? null : stock - remaining,
    }));
  }
}
