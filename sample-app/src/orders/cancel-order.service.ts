import { Injectable } from '@nestjs/common';
import type { Lock } from 'nestjs-redis-lock';
import { ActivityService } from '../activity/activity.service.js';
import { Database } from '../database/database.js';
import { RefusedWrites } from '../database/refused-writes.js';
import { bookReturned } from '../gates/gate.js';
import { GatesService } from '../gates/gates.service.js';
import { OrdersService, StaleHolderError, notPending, type Order } from './orders.service.js';

/** Takes an unpaid order back: its units to the stock, and what was charged for it to the merchant's quota. */
@Injectable()
export class CancelOrderService {
  constructor(
    private readonly database: Database,
    private readonly orders: OrdersService,
    private readonly gates: GatesService,
    private readonly refused: RefusedWrites,
    private readonly activity: ActivityService,
  ) {}

  /**
   * Cancels it, once; a second call finds it cancelled and returns it.
   *
   * @param lock the order's: a payment and a cancellation must not decide at the same time.
   */
  cancel(orderId: string, lock: Lock): Promise<Order> {
    return this.activity.section(lock, () => this.cancelUnder(lock, orderId));
  }

  private async cancelUnder(lock: Lock, orderId: string): Promise<Order> {
    const order = await this.orders.claim(orderId, lock.fencingToken);
    if (!order) throw await this.stale(orderId);
    if (order.status === 'paid') throw notPending(order);
    const cancelled = order.status === 'cancelled' ? order : await this.book(order, lock);
    // Behind the commit: given back before it, and the commit failing, the units would be sold twice. Should this
    // process die right here, the database is right and Redis has too few: another cancellation of the order, or the
    // reconciliation, gives them back. Redis takes each return once.
    for (const { gate, operation_id: operationId } of await this.orders.takenFor(orderId)) {
      await this.gates.giveBack({ gate, operationId });
    }
    return cancelled;
  }

  private async book(order: Order, lock: Lock): Promise<Order> {
    lock.assertHeld();
    try {
      return await this.database.transaction(async (trx) => {
        const cancelled_at = new Date().toISOString();
        const cancelled = await this.orders.write(trx, order, { status: 'cancelled', cancelled_at });
        const taken = await trx
          .selectFrom('journal')
          .selectAll()
          .where('order_id', '=', order.id)
          .where('amount', '>', 0)
          .execute();
        for (const { operation_id: operationId, gate, amount } of taken) {
          await bookReturned(trx, { operationId, gate, orderId: order.id, amount });
        }
        return cancelled;
      });
    } catch (error) {
      throw error instanceof StaleHolderError ? await this.stale(order.id) : error;
    }
  }

  private async stale(orderId: string): Promise<Error> {
    await this.refused.record(`cancel:${orderId}`, 'stale holder');
    return new StaleHolderError(orderId);
  }
}
