import { ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import type { Selectable } from 'kysely';
import { Database } from '../database/database.js';
import type { InventoryTable } from '../database/schema.js';
import { stockGate } from '../gates/gate.js';
import { GatesService } from '../gates/gates.service.js';

export interface StockLevel {
  sku: string;
  merchant_id: string;
  price: number;
  stock: number;
  /** What the database has booked. */
  sold: number;
  /** What Redis would still grant; null when it knows no such quota. */
  remaining: number | null;
}

/** The articles and their stock. */
@Injectable()
export class StockService {
  constructor(
    private readonly database: Database,
    private readonly gates: GatesService,
  ) {}

  /** Adds an article, or more of it. The same `operationId` adds once. */
  async restock(
    article: { sku: string; merchantId: string; price: number },
    quantity: number,
    operationId: string,
  ): Promise<void> {
    const { sku, merchantId, price } = article;
    await this.database.run((db) =>
      db
        .insertInto('inventory')
        .values({ sku, merchant_id: merchantId, price, stock: 0, opened_at: null })
        .onConflict((known) => known.doNothing())
        .execute(),
    );
    await this.gates.grow(stockGate(sku), quantity, operationId);
  }

  /** @throws NotFoundException for an unknown article. */
  async article(sku: string): Promise<Selectable<InventoryTable>> {
    const row = await this.database.run((db) =>
      db.selectFrom('inventory').selectAll().where('sku', '=', sku).executeTakeFirst(),
    );
    if (!row) throw unknownSku(sku);
    return row;
  }

  async list(): Promise<StockLevel[]> {
    const rows = await this.database.run((db) =>
      db.selectFrom('inventory').selectAll().orderBy('sku').execute(),
    );
    return Promise.all(rows.map((row) => this.level(row)));
  }

  /** @throws NotFoundException for an unknown article. */
  async find(sku: string): Promise<StockLevel> {
    return this.level(await this.article(sku));
  }

  private async level({
    sku,
    merchant_id,
    price,
    stock,
    sold,
  }: Selectable<InventoryTable>): Promise<StockLevel> {
    return { sku, merchant_id, price, stock, sold, remaining: await this.gates.remaining(stockGate(sku)) };
  }
}

const unknownSku = (sku: string): NotFoundException =>
  new NotFoundException({
    statusCode: 404,
    code: 'UNKNOWN_SKU',
    message: `There is no article ${JSON.stringify(sku)}.`,
  });

/** What a buyer is told when the database, not Redis, says that nothing is left. */
export const soldOut = (sku: string): ConflictException =>
  new ConflictException({ statusCode: 409, code: 'SOLD_OUT', message: `${sku} is sold out.` });
