import { randomUUID } from 'node:crypto';
import { ConflictException, Injectable, Logger, UnprocessableEntityException } from '@nestjs/common';
import type { Lock } from 'nestjs-redis-lock';
import { ActivityService } from '../activity/activity.service.js';
import { Database } from '../database/database.js';
import { isCheckViolation, isDuplicate } from '../database/database-errors.js';
import { RefusedWrites } from '../database/refused-writes.js';
import { bookTaken, type Operation } from '../gates/gate.js';
import { MerchantsService, lowBalance } from '../merchants/merchants.service.js';
import { OrdersService, StaleHolderError, notPending, type Order } from '../orders/orders.service.js';
import type { PaymentNotice } from './payment.js';
import { ProviderClient } from './provider.client.js';

/** Books a payment: decides under the order's lock, and lets the database have the last word. */
@Injectable()
export class SettlementService {
  private readonly logger = new Logger(SettlementService.name);

  constructor(
    private readonly database: Database,
    private readonly orders: OrdersService,
    private readonly merchants: MerchantsService,
    private readonly provider: ProviderClient,
    private readonly refused: RefusedWrites,
    private readonly activity: ActivityService,
  ) {}

  /**
   * Returns when the order is paid with exactly this transaction, by this run or an earlier one.
   *
   * @param lock the order's, already held: a lock that is taken inside the transaction is given back before the commit,
   *   and the next holder reads what was there before.
   */
  settle(notice: PaymentNotice, lock: Lock): Promise<void> {
    return this.activity.section(lock, () => this.settleUnder(lock, notice));
  }

  private async settleUnder(lock: Lock, notice: PaymentNotice): Promise<void> {
    await this.recordRun(notice);
    const order = await this.orders.claim(notice.orderId, lock.fencingToken);
    if (!order) throw await this.stale(notice);
    if (order.status === 'paid') return this.assertSamePayment(order, notice);
    if (order.status === 'cancelled') throw this.paidThoughCancelled(order, notice);
    if (order.amount !== notice.amount) throw wrongAmount(order, notice);

    await this.provider.confirm(notice.transactionId, lock.signal);
    const charged = (await this.orders.takenFor(order.id)).some(({ gate }) => gate.startsWith('quota:'));
    const charge = charged ? undefined : await this.merchants.charge(order.merchant_id, order.id);

    // Cheap, and it spares a write that the fence would refuse. The fence stays the guarantee.
    lock.assertHeld();
    await this.book(order, notice, charge);
  }

  private async book(order: Order, notice: PaymentNotice, charge: Operation | undefined): Promise<void> {
    const { transactionId: transaction_id, amount, provider } = notice;
    const { id: order_id, fence } = order;
    const now = new Date().toISOString();
    try {
      // One transaction: the payment, the charge with its journal row, and the order's new state, or nothing of it.
      await this.database.transaction(async (trx) => {
        await trx
          .insertInto('payments')
          .values({ transaction_id, order_id, provider, amount, fence, created_at: now })
          .execute();
        await this.orders.write(trx, order, { status: 'paid', paid_at: now });
        if (charge) await bookTaken(trx, charge);
      });
    } catch (error) {
      if (error instanceof StaleHolderError) throw await this.stale(notice);
      if (isCheckViolation(error)) throw await this.overspent(order, notice);
      if (!isDuplicate(error)) throw error;
      await this.refused.record(transaction_id, 'duplicate payment');
      // Booked by somebody else in the meantime: whether that was this order decides the answer.
      return this.assertSamePayment(await this.orders.find(order_id), notice);
    }
  }

  /** A paid order: a success for the transaction that paid it, a conflict for any other. */
  private async assertSamePayment(order: Order, { transactionId }: PaymentNotice): Promise<void> {
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

  private paidThoughCancelled(order: Order, { transactionId }: PaymentNotice): ConflictException {
    this.logger.error(`Order ${order.id} is cancelled, but transaction ${transactionId} came in: refund it.`);
    return notPending(order);
  }

  /**
   * Redis granted more than was prepaid: the database is right. What was taken in Redis stays taken there: the order
   * is charged under one id, and one that was given back could not be charged again after a top-up.
   */
  private async overspent(order: Order, { transactionId }: PaymentNotice): Promise<ConflictException> {
    await this.refused.record(transactionId, 'overspend');
    return lowBalance(order.merchant_id, 0);
  }

  /** The lock was lost and a later holder is at work: this run must not answer for it. */
  private async stale({ orderId, transactionId }: PaymentNotice): Promise<Error> {
    await this.refused.record(transactionId, 'stale holder');
    return new StaleHolderError(orderId);
  }

  private async recordRun({ notificationId, orderId }: PaymentNotice): Promise<void> {
    const run = {
      id: randomUUID(),
      notification_id: notificationId,
      order_id: orderId,
      created_at: new Date().toISOString(),
    };
    await this.database.run((db) => db.insertInto('callback_runs').values(run).execute());
  }
}

const wrongAmount = (order: Order, { amount }: PaymentNotice): UnprocessableEntityException =>
  new UnprocessableEntityException({
    statusCode: 422,
    code: 'WRONG_AMOUNT',
    message: `Order ${order.id} costs ${order.amount}, the notification says ${amount}.`,
  });
