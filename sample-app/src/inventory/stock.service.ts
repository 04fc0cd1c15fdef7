import {
  ConflictException,
  Injectable,
  NotFoundException,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { QuotaService, isRedisLockError, type QuotaReceipt } from 'nestjs-redis-lock';
import { Database } from '../database/database.js';

export interface StockLevel {
  sku: string;
  price: number;
  stock: number;
  /** What the database has booked. */
  sold: number;
  /** What Redis would still grant; null when it knows no such quota. */
  remaining: number | null;
}

/** The stock: Redis is the gate that thousands may push against, the database is the truth. */
@Injectable()
export class StockService implements OnApplicationBootstrap {
  constructor(
    private readonly database: Database,
    private readonly quotas: QuotaService,
  ) {}

  /** A Redis that has lost the quotas, or never had them, gets them from the database. */
  async onApplicationBootstrap(): Promise<void> {
    const rows = await this.database.run((db) => db.selectFrom('inventory').selectAll().execute());
    await Promise.all(rows.map((row) => this.openGate(row.sku, row.stock - row.sold)));
  }

  /** Adds an article, or more of it. The same `operationId` adds once. */
  async restock(sku: string, price: number, quantity: number, operationId: string): Promise<void> {
    const { stock, sold } = await this.database.run((db) =>
      db
        .insertInto('inventory')
        .values({ sku, price, stock: quantity })
        .onConflict((existing) =>
          existing.column('sku').doUpdateSet((row) => ({ stock: row('inventory.stock', '+', quantity) })),
        )
        .returning(['stock', 'sold'])
        .executeTakeFirstOrThrow(),
    );
    if (!(await this.openGate(sku, stock - sold))) {
      await this.quotas.grant(quotaKey(sku), quantity, { operationId });
    }
  }

  /** @throws NotFoundException for an unknown article. */
  async priceOf(sku: string): Promise<number> {
    return (await this.row(sku)).price;
  }

  /**
   * Takes `quantity` units out of Redis' stock, in one atomic step and without a lock. Buyers who come at the same time
   * share a script, so a hot article costs Redis little more than a quiet one. The operation id makes it safe to
   * repeat: the same one takes once, whatever became of the answer.
   */
  async take(sku: string, quantity: number, operationId: string): Promise<QuotaReceipt> {
    const deduct = (): Promise<QuotaReceipt> => this.quotas.deduct(quotaKey(sku), quantity, { operationId });
    try {
      return await deduct();
    } catch (error) {
      if (!isRedisLockError(error, 'QUOTA_NOT_FOUND')) throw error;
      // Redis has no gate for this article: nothing was left when this process started, or Redis came back empty.
      const { stock, sold } = await this.row(sku);
      if (stock === sold) throw soldOut(sku);
      await this.openGate(sku, stock - sold);
      return deduct();
    }
  }

  /** Gives back what an operation took that the database then refused for good, and closes its id. */
  async giveBack(sku: string, operationId: string): Promise<void> {
    await this.quotas.refund(quotaKey(sku), operationId);
  }

  async list(): Promise<StockLevel[]> {
    const rows = await this.database.run((db) =>
      db.selectFrom('inventory').selectAll().orderBy('sku').execute(),
    );
    return Promise.all(rows.map((row) => this.level(row)));
  }

  /** @throws NotFoundException for an unknown article. */
  async find(sku: string): Promise<StockLevel> {
    return this.level(await this.row(sku));
  }

  private async row(sku: string): Promise<Omit<StockLevel, 'remaining'>> {
    const row = await this.database.run((db) =>
      db.selectFrom('inventory').selectAll().where('sku', '=', sku).executeTakeFirst(),
    );
    if (!row) throw unknownSku(sku);
    return row;
  }

  private async level(row: Omit<StockLevel, 'remaining'>): Promise<StockLevel> {
    return { ...row, remaining: await this.quotas.remaining(quotaKey(row.sku)) };
  }

  /** True when this call opened it: with several processes, exactly one does. */
  private async openGate(sku: string, units: number): Promise<boolean> {
    return units > 0 && this.quotas.init(quotaKey(sku), units);
  }
}

const quotaKey = (sku: string): string => `stock:${sku}`;

const unknownSku = (sku: string): NotFoundException =>
  new NotFoundException({
    statusCode: 404,
    code: 'UNKNOWN_SKU',
    message: `There is no article ${JSON.stringify(sku)}.`,
  });

/** What a buyer is told when the database, not Redis, says that nothing is left. */
export const soldOut = (sku: string): ConflictException =>
  new ConflictException({ statusCode: 409, code: 'SOLD_OUT', message: `${sku} is sold out.` });
