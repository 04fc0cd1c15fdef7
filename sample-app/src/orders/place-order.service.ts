import { randomUUID } from 'node:crypto';
import { ConflictException, Injectable } from '@nestjs/common';
import { isRedisLockError } from 'nestjs-redis-lock';
import { Database } from '../database/database.js';
import { isCheckViolation, isDuplicate } from '../database/database-errors.js';
import { RefusedWrites } from '../database/refused-writes.js';
import { bookTaken, stockGate } from '../gates/gate.js';
import { GatesService } from '../gates/gates.service.js';
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
  /** An order that is not paid within this is cancelled, and its units are for sale again. */
  private readonly unpaidForMs = Number(process.env.ORDER_TTL_SECONDS || 900) * 1_000;

  constructor(
    private readonly database: Database,
    private readonly stock: StockService,
    private readonly gates: GatesService,
    private readonly orders: OrdersService,
    private readonly refused: RefusedWrites,
  ) {}

  async place(request: OrderRequest): Promise<Order> {
    const { sku, quantity, operationId } = request;
    const { price, merchant_id } = await this.stock.article(sku);
    if (!(await this.take(request))) {
      // An earlier run took the units: it may have booked them before it died, or not.
      const booked = await this.orders.findByOperation(operationId);
      if (booked) return booked;
    }
    const now = Date.now();
    return this.book(operationId, {
      id: randomUUID(),
      sku,
      merchant_id,
      quantity,
      amount: price * quantity,
      status: 'pending',
      fence: 0,
      created_at: new Date(now).toISOString(),
      expires_at: new Date(now + this.unpaidForMs).toISOString(),
      paid_at: null,
      cancelled_at: null,
    });
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

  /** False when the operation had been carried out before. */
  private async take({ sku, quantity, operationId }: OrderRequest): Promise<boolean> {
    try {
      const receipt = await this.gates.take({ gate: stockGate(sku), amount: quantity, operationId });
      return !receipt.replayed;
    } catch (error) {
      const isRefused =
        isRedisLockError(error, 'QUOTA_OPERATION') || isRedisLockError(error, 'QUOTA_EXCEEDED');
      // It may be booked all the same: given back since, with its order cancelled; or Redis has forgotten that it took,
      // and sold the rest. The buyer of a booked order must not be told no.
      if (!isRefused || !(await this.orders.findByOperation(operationId))) throw error;
      return false;
    }
  }

  private async book(operationId: string, order: Order): Promise<Order> {
    const { id: orderId, sku, quantity: amount } = order;
    const gate = stockGate(sku);
    try {
      // One transaction: the order, the journal and the count agree at every moment.
      await this.database.transaction(async (trx) => {
        await trx.insertInto('orders').values(order).execute();
        await bookTaken(trx, { operationId, gate, orderId, amount });
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
    await this.gates.giveBack({ gate: stockGate(sku), operationId });
    return soldOut(sku);
  }
}
