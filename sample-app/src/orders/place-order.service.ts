import { randomUUID } from 'node:crypto';
import { ConflictException, Injectable } from '@nestjs/common';
import { Database } from '../database/database.js';
import { isCheckViolation, isDuplicate } from '../database/database-errors.js';
import { RefusedWrites } from '../database/refused-writes.js';
import { StockService, soldOut } from '../inventory/stock.service.js';
import { OrdersService, type Order } from './orders.service.js';

export interface OrderRequest {
  sku: string;
  quantity: number;
  /** Names this purchase for ever: the same id takes and books once. */
  operationId: string;
}

/** Turns stock into an order: deduct in Redis, then book in the database. */
@Injectable()
export class PlaceOrderService {
  constructor(
    private readonly database: Database,
    private readonly stock: StockService,
    private readonly orders: OrdersService,
    private readonly refused: RefusedWrites,
  ) {}

  async place({ sku, quantity, operationId }: OrderRequest): Promise<Order> {
    const price = await this.stock.priceOf(sku);
    const receipt = await this.stock.take(sku, quantity, operationId);
    if (receipt.replayed) {
      // An earlier run took the units: it may have booked them before it died, or not.
      const booked = await this.orders.findByOperation(operationId);
      if (booked) return booked;
    }
    return this.book({ sku, quantity, operationId }, price * quantity);
  }

  /** Like {@link place}, but a second order under the same operation id is refused. Call it under a lock. */
  async placeOnce(request: OrderRequest): Promise<Order> {
    const booked = await this.orders.findByOperation(request.operationId);
    if (booked) {
      throw new ConflictException({
        statusCode: 409,
        code: 'ALREADY_BOUGHT',
        message: `One per buyer: this is order ${booked.id} already.`,
      });
    }
    return this.place(request);
  }

  private async book({ sku, quantity, operationId }: OrderRequest, amount: number): Promise<Order> {
    const now = new Date().toISOString();
    const order: Order = {
      id: randomUUID(),
      sku,
      quantity,
      amount,
      status: 'pending',
      fence: 0,
      created_at: now,
      paid_at: null,
    };
    const journal = { operation_id: operationId, sku, order_id: order.id, quantity, created_at: now };
    try {
      // One transaction: the order, the journal and the count agree at every moment.
      await this.database.transaction(async (trx) => {
        await trx
          .updateTable('inventory')
          .set((row) => ({ sold: row('sold', '+', quantity) }))
          .where('sku', '=', sku)
          .execute();
        await trx.insertInto('orders').values(order).execute();
        await trx.insertInto('stock_journal').values(journal).execute();
      });
      return order;
    } catch (error) {
      if (isDuplicate(error)) return this.alreadyBooked(operationId, error);
      if (isCheckViolation(error)) throw await this.oversold(sku, operationId);
      // Anything else may have been applied. The units stay taken: the same request id books them on the next try,
      // and giving them back here could sell them twice.
      throw error;
    }
  }

  /** Another run of the same operation was faster. */
  private async alreadyBooked(operationId: string, error: unknown): Promise<Order> {
    const booked = await this.orders.findByOperation(operationId);
    if (!booked) throw error;
    await this.refused.record(operationId, 'duplicate operation');
    return booked;
  }

  /** Redis granted more than the database has: the database is right. */
  private async oversold(sku: string, operationId: string): Promise<ConflictException> {
    await this.refused.record(operationId, 'oversell');
    await this.stock.giveBack(sku, operationId);
    return soldOut(sku);
  }
}
