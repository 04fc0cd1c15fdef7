import { ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import type { Selectable, Transaction } from 'kysely';
import { Database } from '../database/database.js';
import type { JournalTable, OrdersTable, PaymentsTable, Schema } from '../database/schema.js';

export type Order = Selectable<OrdersTable>;
export type Payment = Selectable<PaymentsTable>;
export type JournalEntry = Selectable<JournalTable>;

/** Reads orders, and claims them for the holder of their lock, `lock:order:<id>`. */
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

  /** What was taken from the gates for this order, whether given back since or not. */
  takenFor(orderId: string): Promise<JournalEntry[]> {
    return this.database.run((db) =>
      db.selectFrom('journal').selectAll().where('order_id', '=', orderId).where('amount', '>', 0).execute(),
    );
  }

  /** The order that an operation has already booked. */
  findByOperation(operationId: string): Promise<Order | undefined> {
    return this.database.run((db) =>
      db
        .selectFrom('journal')
        .innerJoin('orders', 'orders.id', 'journal.order_id')
        .selectAll('orders')
        .where('journal.operation_id', '=', operationId)
        .executeTakeFirst(),
    );
  }

  /** Those that nobody paid in time, the oldest first. */
  async overdue(now: Date, limit: number): Promise<string[]> {
    const rows = await this.database.run((db) =>
      db
        .selectFrom('orders')
        .select('id')
        .where('status', '=', 'pending')
        .where('expires_at', '<=', now.toISOString())
        .orderBy('expires_at')
        .limit(limit)
        .execute(),
    );
    return rows.map(({ id }) => id);
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

  /**
   * Writes to an order that was claimed with this token and is still pending. Thrown inside a transaction, the error
   * takes everything else in it along.
   *
   * @throws StaleHolderError when a later holder has claimed the row, or changed its state.
   */
  async write(
    trx: Transaction<Schema>,
    { id, fence }: Pick<Order, 'id' | 'fence'>,
    change: Partial<Pick<Order, 'status' | 'paid_at' | 'cancelled_at' | 'fence'>>,
  ): Promise<Order> {
    const written = await trx
      .updateTable('orders')
      .set(change)
      .where('id', '=', id)
      .where('fence', '=', fence)
      .where('status', '=', 'pending')
      .returningAll()
      .executeTakeFirst();
    if (!written) throw new StaleHolderError(id);
    return written;
  }
}

/** The lock was lost and a later holder is at work: this run must not answer for it. 409, so that it is sent again. */
export class StaleHolderError extends ConflictException {
  constructor(orderId: string) {
    super({
      statusCode: 409,
      code: 'STALE_HOLDER',
      message: `Order ${orderId} was taken over by another run: send this again.`,
    });
  }
}

/** Why an order that is paid or cancelled cannot be paid or cancelled any more. */
export const notPending = ({ id, status }: Pick<Order, 'id' | 'status'>): ConflictException =>
  new ConflictException({
    statusCode: 409,
    code: status === 'paid' ? 'ORDER_PAID' : 'ORDER_CANCELLED',
    message: `Order ${id} is ${status} already.`,
  });

export const unknownOrder = (id: string): NotFoundException =>
  new NotFoundException({
    statusCode: 404,
    code: 'UNKNOWN_ORDER',
    message: `There is no order ${JSON.stringify(id)}.`,
  });
