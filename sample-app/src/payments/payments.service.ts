import { randomUUID } from 'node:crypto';
import { ConflictException, Injectable, Logger, UnprocessableEntityException } from '@nestjs/common';
import type { Lock } from 'nestjs-redis-lock';
import { Database } from '../database/database.js';
import { isDuplicate } from '../database/database-errors.js';
import { RefusedWrites } from '../database/refused-writes.js';
import { OrdersService, type Order } from '../orders/orders.service.js';
import type { PaymentNotificationDto } from './payments.dto.js';
import { ProviderClient } from './provider.client.js';

/** Books a payment: decides under the order's lock, and lets the database have the last word. */
@Injectable()
export class PaymentsService {
  private readonly logger = new Logger(PaymentsService.name);

  constructor(
    private readonly database: Database,
    private readonly orders: OrdersService,
    private readonly provider: ProviderClient,
    private readonly refused: RefusedWrites,
  ) {}

  /** Returns when the order is paid with exactly this transaction, by this run or an earlier one. */
  async settle(notification: PaymentNotificationDto, lock: Lock): Promise<void> {
    await this.recordRun(notification);
    const order = await this.orders.claim(notification.orderId, lock.fencingToken);
    if (!order) throw await this.staleHolder(notification);
    if (order.status === 'paid') return this.assertSamePayment(order, notification);
    if (order.amount !== notification.amount) throw wrongAmount(order, notification);

    await this.provider.confirm(notification.transactionId, lock.signal);

    // Cheap, and it spares a write that the fence would refuse. The fence stays the guarantee.
    lock.assertHeld();
    await this.book(order, notification, lock.fencingToken);
  }

  private async book(
    order: Order,
    { transactionId, amount }: PaymentNotificationDto,
    fence: number,
  ): Promise<void> {
    const now = new Date().toISOString();
    const payment = { transaction_id: transactionId, order_id: order.id, amount, fence, created_at: now };
    try {
      await this.database.transaction(async (trx) => {
        await trx.insertInto('payments').values(payment).execute();
        const written = await trx
          .updateTable('orders')
          .set({ status: 'paid', paid_at: now })
          .where('id', '=', order.id)
          .where('fence', '=', fence)
          .where('status', '=', 'pending')
          .returning('id')
          .executeTakeFirst();
        // Thrown inside the transaction: the payment's row goes with it.
        if (!written) throw new StaleHolderError();
      });
    } catch (error) {
      if (error instanceof StaleHolderError)
        throw await this.staleHolder({ orderId: order.id, transactionId });
      if (!isDuplicate(error)) throw error;
      await this.refused.record(transactionId, 'duplicate payment');
      // Booked by somebody else in the meantime: whether that was this order decides the answer.
      return this.assertSamePayment(await this.orders.find(order.id), { transactionId });
    }
  }

  /** A paid order: a success for the transaction that paid it, a conflict for any other. */
  private async assertSamePayment(order: Order, { transactionId }: { transactionId: string }): Promise<void> {
    const payments = await this.orders.paymentsOf(order.id);
    if (payments.some((payment) => payment.transaction_id === transactionId)) return;
    // Somebody has paid twice: money came in that belongs to no order. People have to see this.
    this.logger.error(
      `Order ${order.id}: transaction ${transactionId} is not the one that paid it: refund it.`,
    );
    throw new ConflictException({
      statusCode: 409,
      code: 'OTHER_PAYMENT',
      message: `Order ${order.id} and transaction ${transactionId} do not belong together: the order is paid with another transaction, or the transaction paid another order.`,
    });
  }

  /** The lock was lost and a later holder is at work: this run must not answer for it. */
  private async staleHolder({
    orderId,
    transactionId,
  }: {
    orderId: string;
    transactionId: string;
  }): Promise<Error> {
    await this.refused.record(transactionId, 'stale holder');
    return new ConflictException({
      statusCode: 409,
      code: 'STALE_HOLDER',
      message: `Order ${orderId} was taken over by another run: send the notification again.`,
    });
  }

  private async recordRun({ id, orderId }: PaymentNotificationDto): Promise<void> {
    const run = {
      id: randomUUID(),
      notification_id: id,
      order_id: orderId,
      created_at: new Date().toISOString(),
    };
    await this.database.run((db) => db.insertInto('callback_runs').values(run).execute());
  }
}

class StaleHolderError extends Error {}

const wrongAmount = (order: Order, { amount }: PaymentNotificationDto): UnprocessableEntityException =>
  new UnprocessableEntityException({
    statusCode: 422,
    code: 'WRONG_AMOUNT',
    message: `Order ${order.id} costs ${order.amount}, the notification says ${amount}.`,
  });
