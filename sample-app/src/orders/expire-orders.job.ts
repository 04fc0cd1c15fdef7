import { Injectable, Logger } from '@nestjs/common';
import { Cron, CronExpression } from '@nestjs/schedule';
import { CurrentLock, DistributedLock, LockService, isRedisLockError, type Lock } from 'nestjs-redis-lock';
import { reasonOf } from '../reason-of.js';
import { CancelOrderService } from './cancel-order.service.js';
import { OrdersService } from './orders.service.js';

/** Per run: what is left over is taken by the next one, in half a minute. */
const MOST_PER_RUN = 500;

/** Cancels what nobody paid in time. Every instance has this job, and each time one of them runs it. */
@Injectable()
export class ExpireOrdersJob {
  private readonly logger = new Logger(ExpireOrdersJob.name);

  constructor(
    private readonly orders: OrdersService,
    private readonly cancelling: CancelOrderService,
    private readonly locks: LockService,
  ) {}

  /**
   * - `onBusy: 'skip'`: an instance that comes second does nothing, and that is no error.
   * - `minHold`: with nothing to do the job takes a millisecond, and the instances' clocks differ by more. Without it
   *   one that is a second late would find the lock free again and run it once more.
   * - No ttl that covers the job: the watchdog renews a short one, so that a killed instance blocks no run for long.
   *
   * @returns how many it cancelled; undefined where another instance has this run.
   */
  @Cron(CronExpression.EVERY_30_SECONDS)
  @DistributedLock('lock:cron:expire-orders', { onBusy: 'skip', minHold: '20s' })
  async run(@CurrentLock() lock?: Lock): Promise<number | undefined> {
    let cancelled = 0;
    for (const orderId of await this.orders.overdue(new Date(), MOST_PER_RUN)) {
      lock?.assertHeld();
      if (await this.cancel(orderId)) cancelled += 1;
    }
    if (cancelled > 0) this.logger.log(`${cancelled} orders were not paid in time and are cancelled.`);
    return cancelled;
  }

  /** Under the order's own lock: a payment may be on its way at this very moment. */
  private async cancel(orderId: string): Promise<boolean> {
    try {
      const order = await this.locks.withLock(
        `lock:order:${orderId}`,
        (lock) => this.cancelling.cancel(orderId, lock),
        { waitTimeout: 0 },
      );
      return order.status === 'cancelled';
    } catch (error) {
      // Somebody pays it or cancels it: if it is still unpaid, the next run takes it.
      if (!isRedisLockError(error, 'LOCK_BUSY')) {
        this.logger.warn(`Order ${orderId} could not be cancelled: ${reasonOf(error)}`);
      }
      return false;
    }
  }
}
