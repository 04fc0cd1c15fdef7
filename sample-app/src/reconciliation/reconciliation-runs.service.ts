import { Injectable, NotFoundException } from '@nestjs/common';
import { LockService } from 'nestjs-redis-lock';
import { Database } from '../database/database.js';
import type { ReconciliationReport } from './report.js';

export const RECONCILIATION_LOCK = 'lock:reconciliation';

export interface ReconciliationProgress {
  running: boolean;
  /** True: the process that ran it is gone. The next run does not have to wait for it. */
  abandoned: boolean;
  id: number;
  step: string;
  done: number;
  total: number;
  startedAt: string;
}

/** Keeps progress and reports in the database: every process can tell of a run, whichever runs it. */
@Injectable()
export class ReconciliationRuns {
  constructor(
    private readonly database: Database,
    private readonly locks: LockService,
  ) {}

  async begin(id: number, total: number): Promise<string> {
    const started_at = new Date().toISOString();
    const row = { id, step: 'starting', done: 0, total, started_at, finished_at: null, report: null };
    await this.database.run((db) => db.insertInto('reconciliations').values(row).execute());
    return started_at;
  }

  async advance(id: number, done: number, step: string): Promise<void> {
    await this.database.run((db) =>
      db.updateTable('reconciliations').set({ done, step }).where('id', '=', id).execute(),
    );
  }

  async finish(report: ReconciliationReport): Promise<void> {
    const { id, finishedAt: finished_at } = report;
    await this.database.run((db) =>
      db
        .updateTable('reconciliations')
        .set((row) => ({
          step: 'finished',
          done: row.ref('total'),
          finished_at,
          report: JSON.stringify(report),
        }))
        .where('id', '=', id)
        .execute(),
    );
  }

  /** @throws NotFoundException when none has finished yet. */
  async latest(): Promise<ReconciliationReport> {
    const row = await this.database.run((db) =>
      db
        .selectFrom('reconciliations')
        .select('report')
        .where('report', 'is not', null)
        .orderBy('id', 'desc')
        .executeTakeFirst(),
    );
    if (!row?.report) throw none('There is no report yet: POST /reconciliation makes one.');
    return JSON.parse(row.report) as ReconciliationReport;
  }

  /** @throws NotFoundException when none was started yet. */
  async progress(): Promise<ReconciliationProgress> {
    const row = await this.database.run((db) =>
      db.selectFrom('reconciliations').selectAll().orderBy('id', 'desc').executeTakeFirst(),
    );
    if (!row) throw none('No reconciliation was started yet: POST /reconciliation starts one.');
    const { id, step, done, total, started_at: startedAt, finished_at } = row;
    // A process that was killed can no longer say so, but its lock tells.
    const holder = finished_at === null ? await this.locks.inspect(RECONCILIATION_LOCK) : null;
    const running = holder !== null;
    return { running, abandoned: finished_at === null && !running, id, step, done, total, startedAt };
  }
}

const none = (message: string): NotFoundException =>
  new NotFoundException({ statusCode: 404, code: 'NO_RECONCILIATION', message });
