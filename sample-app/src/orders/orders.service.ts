import { Injectable, NotFoundException } from '@nestjs/common';
import type { Selectable } from 'kysely';
import { Database } from '../database/database.js';
import type { OrdersTable, PaymentsTable } from '../database/schema.js';

export type Order = Selectable<OrdersTable>;
export type Payment = Selectable<PaymentsTable>;

@Injectable()
export class OrdersService {
  constructor(private readonly database: Database) {}

  list(limit = 50): Promise<Order[]> {
    return this.database.run((db) =>
      db.selectFrom('orders').selectAll().orderBy('created_at', 'desc').limit(limit).execute(),
    );
  }

  /** @throws NotFoundException for an unknown order. */
  async find(id: string): Promise<Order> {
    const order = await this.database.run((db) =>
      db.selectFrom('orders').selectAll().where('id', '=', id).executeTakeFirst(),
    );
    if (!order) throw unknownOrder(id);
    return order;
  }

  paymentsOf(orderId: string): Promise<Payment[]> {
    return this.database.run((db) =>
      db.selectFrom('payments').selectAll().where('order_id', '=', orderId).execute(),
    );
  }

  /** The order that an operation has already booked. */
  findByOperation(operationId: string): Promise<Order | undefined> {
    return this.database.run((db) =>
      db
        .selectFrom('stock_journal')
        .innerJoin('orders', 'orders.id', 'stock_journal.order_id')
        .selectAll('orders')
        .where('stock_journal.operation_id', '=', operationId)
        .executeTakeFirst(),
    );
  }

  /**
   * Claims the row for the holder of a lock, and reads it, in one statement.
   *
   * Claim first, then read: a holder that was stopped for longer than its lease (a long pause, a frozen machine)
   * still believes that it holds the lock. Once its successor has claimed the row, the old one's token is too
   * small for this statement and for the write, wherever in its work it wakes up. Comparing only at the write
   * would let it slip in between its successor's read and write.
   *
   * @returns undefined when a later holder has claimed the row.
   * @throws NotFoundException for an unknown order.
   */
  async claim(id: string, fencingToken: number): Promise<Order | undefined> {
    const claimed = await this.database.run((db) =>
      db
        .updateTable('orders')
        .set({ fence: fencingToken })
        .where('id', '=', id)
        .where('fence', '<=', fencingToken)
        .returningAll()
        .executeTakeFirst(),
    );
    if (!claimed) await this.find(id);
    return claimed;
  }
}

const unknownOrder = (id: string): NotFoundException =>
  new NotFoundException({
    statusCode: 404,
    code: 'UNKNOWN_ORDER',
    message: `There is no order ${JSON.stringify(id)}.`,
  });
