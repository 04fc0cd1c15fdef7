import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { QuotaExceededError, QuotaService, isRedisLockError, type QuotaReceipt } from 'nestjs-redis-lock';
import { ActivityService } from '../activity/activity.service.js';
import { Database } from '../database/database.js';
import { bookGrant, parseGate, type Gate, type Operation } from './gate.js';
import { quotas, stocks } from './gate-rows.js';

/** The gates: Redis is what thousands may push against, the database is the truth. */
@Injectable()
export class GatesService implements OnApplicationBootstrap {
  constructor(
    private readonly database: Database,
    private readonly quotas: QuotaService,
    private readonly activity: ActivityService,
  ) {}

  /** A Redis that has lost the quotas, or never had them, gets them from the database. */
  async onApplicationBootstrap(): Promise<void> {
    const gates = await this.all();
    await Promise.all(gates.map((gate) => this.open(gate)));
  }

  /** All gates as the database knows them. */
  all(): Promise<Gate[]> {
    return this.database.run(async (db) => [
      ...(await stocks(db).execute()),
      ...(await quotas(db).execute()),
    ]);
  }

  /** One gate as the database knows it. */
  find(key: string): Promise<Gate | undefined> {
    const { kind, id } = parseGate(key);
    return this.database.run((db) =>
      kind === 'stock'
        ? stocks(db).where('sku', '=', id).executeTakeFirst()
        : quotas(db).where('id', '=', id).executeTakeFirst(),
    );
  }

  /**
   * Takes out of Redis, in one atomic step and without a lock. The operation id makes it safe to repeat: the same one
   * takes once, whatever became of the answer.
   *
   * @throws QuotaExceededError when there is not enough, by Redis or by the database.
   */
  async take({ gate: key, amount, operationId }: Omit<Operation, 'orderId'>): Promise<QuotaReceipt> {
    const deduct = (): Promise<QuotaReceipt> => this.quotas.deduct(key, amount, { operationId });
    try {
      return await deduct();
    } catch (error) {
      if (!isRedisLockError(error, 'QUOTA_NOT_FOUND')) throw error;
      // Nothing was left when this process started, or Redis came back empty.
      const gate = await this.find(key);
      if (!gate || gate.granted === gate.taken) throw new QuotaExceededError(key, amount, 0);
      await this.open(gate);
      return await deduct();
    } finally {
      this.tell(key);
    }
  }

  /** Gives back in Redis what the operation took: once, however often it is called. */
  async giveBack({ gate: key, operationId }: Pick<Operation, 'gate' | 'operationId'>): Promise<void> {
    await this.quotas.refund(key, operationId);
    this.tell(key);
  }

  /**
   * Adds to what there is to take: first in the database, where the operation's row makes it once, then in Redis.
   * The article or the merchant must exist.
   */
  async grow(key: string, amount: number, operationId: string): Promise<void> {
    const isDue = await this.database.transaction((trx) =>
      bookGrant(trx, { operationId, gate: key, amount }),
    );
    const gate = isDue ? await this.find(key) : undefined;
    if (!gate) return;
    // A quota that is made from the database has it already; and the reconciliation finds what a crash leaves here.
    if (!(await this.open(gate))) await this.quotas.grant(key, amount, { operationId });
    const applied_at = new Date().toISOString();
    await this.database.run((db) =>
      db.updateTable('grants').set({ applied_at }).where('operation_id', '=', operationId).execute(),
    );
    this.tell(key);
  }

  /**
   * Whether Redis knows that an operation took something. The question is a deduction of more than there can be, under
   * the same id: it takes nothing and leaves nothing, but a known id is answered as such. Of a known one the same
   * deduction again tells the rest: it is answered with the first receipt, or that it was given back.
   */
  async stateOf({ gate, operationId, amount }: Operation): Promise<'taken' | 'given-back' | 'unknown'> {
    if (!(await this.isKnown(gate, operationId))) return 'unknown';
    try {
      const { replayed } = await this.quotas.deduct(gate, amount, { operationId });
      if (replayed) return 'taken';
    } catch (error) {
      if (isRedisLockError(error, 'QUOTA_OPERATION')) return 'given-back';
      throw error;
    }
    // Forgotten between the two questions, so this was no question: it took.
    await this.quotas.refund(gate, operationId);
    return 'given-back';
  }

  private async isKnown(key: string, operationId: string): Promise<boolean> {
    try {
      await this.quotas.deduct(key, Number.MAX_SAFE_INTEGER, { operationId });
    } catch (error) {
      if (isRedisLockError(error, 'QUOTA_OPERATION')) return true;
      if (isRedisLockError(error, 'QUOTA_EXCEEDED') || isRedisLockError(error, 'QUOTA_NOT_FOUND'))
        return false;
      throw error;
    }
    throw new Error(`${key} had room for more than there can be: ${operationId} took it all`);
  }

  /** What Redis would still grant; null when it knows no such quota. */
  remaining(key: string): Promise<number | null> {
    return this.quotas.remaining(key);
  }

  /** Makes the quota in Redis from the database's row. True when this call did: of several processes, exactly one. */
  async open({ key, granted, taken }: Gate): Promise<boolean> {
    if (granted === taken || !(await this.quotas.init(key, granted - taken))) return false;
    const { kind, id } = parseGate(key);
    const opened_at = new Date().toISOString();
    await this.database.run(async (db) => {
      if (kind === 'stock') {
        await db.updateTable('inventory').set({ opened_at }).where('sku', '=', id).execute();
      } else {
        await db.updateTable('merchants').set({ opened_at }).where('id', '=', id).execute();
      }
    });
    return true;
  }

  private tell(key: string): void {
    this.activity.tell({ type: parseGate(key).kind });
  }
}
