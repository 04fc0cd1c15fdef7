import { setTimeout as sleep } from 'node:timers/promises';
import { ConflictException, Inject, Injectable } from '@nestjs/common';
import { LockService } from 'nestjs-redis-lock';
import { ActivityService } from '../activity/activity.service.js';
import { OrdersService } from '../orders/orders.service.js';
import { REDIS_SOURCE, type RedisSource } from '../redis/redis-source.js';
import { CallbackSender, type Delivery } from './callback-sender.js';
import { DashboardFeed } from './dashboard.feed.js';
import { LockHolder } from './lock-holder.js';
import { NewOrderAction } from './new-order.action.js';

/** Short, so that watching is no waiting; the watchdog of the holder renews it until it is killed. */
const LEASE_MS = 3_000;
/** So long the waiter is to be seen waiting for a holder that lives. */
const WATCH_MS = 1_000;
const WAITER_LIMIT_MS = 5_000;

export interface KillHolderResult {
  /** The whole, in one sentence. */
  summary: string;
  orderId: string;
  pid: number;
  /** Between the kill and the answer of the callback that waited. */
  freeAfterMs: number;
  fencingTokenBefore: number;
  fencingTokenAfter: number;
  /** The order's, in the end. */
  status: string;
}

/**
 * "Kill the holder": a real process takes the lock of an order and dies by SIGKILL while the provider's callback for
 * this order waits. Nothing is released: only the end of the lease lets the callback in.
 */
@Injectable()
export class KillHolderAction {
  private running = false;

  constructor(
    private readonly orders: OrdersService,
    private readonly newOrder: NewOrderAction,
    private readonly sender: CallbackSender,
    private readonly locks: LockService,
    private readonly activity: ActivityService,
    private readonly feed: DashboardFeed,
    @Inject(REDIS_SOURCE) private readonly redis: RedisSource,
  ) {}

  async run(): Promise<KillHolderResult> {
    if (this.redis.kind !== 'redis') {
      throw conflict(
        'NEEDS_REDIS',
        'The locks of this run live in the memory of one process: nobody else can hold one.',
      );
    }
    if (this.running) throw conflict('ALREADY_RUNNING', 'A holder is being killed already: watch that one.');
    this.running = true;
    try {
      return await this.killed(this.redis.url);
    } finally {
      this.running = false;
    }
  }

  private async killed(redisUrl: string): Promise<KillHolderResult> {
    const order = await this.newOrder.run();
    const key = `lock:order:${order.id}`;
    this.feed.step(`A process of its own starts and takes ${key}.`);
    const holder = await LockHolder.start({ redisUrl, key, ttlMs: LEASE_MS });
    try {
      this.feed.step(
        `Process ${holder.pid} holds it with fencing token ${holder.fencingToken}. Its lease is ${LEASE_MS / 1_000} s, renewed as long as it lives. The callback for this order arrives and waits.`,
      );
      const delivery = this.sender.deliver({
        provider: 'stripe',
        notificationId: `page-kill-${order.id}`,
        orderId: order.id,
        transactionId: `page-kill-${order.id}`,
        amount: order.amount,
      });
      // Its fault, if any, is told below; until then nobody looks.
      delivery.catch(() => undefined);
      await this.waiterSeen(key);
      await sleep(WATCH_MS);
      await holder.kill();
      return await this.afterKill(holder, key, order.id, delivery);
    } finally {
      await holder.kill();
    }
  }

  private async afterKill(
    { pid, fencingToken, since }: LockHolder,
    key: string,
    orderId: string,
    delivery: Promise<Delivery>,
  ): Promise<KillHolderResult> {
    const killedAt = Date.now();
    // The dead tell nothing.
    this.activity.tell({
      type: 'section',
      key,
      fencingToken,
      startedAt: since,
      endedAt: killedAt,
      process: `pid ${pid} (killed)`,
    });
    const left = (await this.locks.inspect(key))?.remainingMs ?? 0;
    this.feed.step(
      `Process ${pid} is killed. It released nothing: its lease has ${seconds(left)} to run.`,
      'bad',
    );
    const { answer } = await delivery;
    const freeAfterMs = Date.now() - killedAt;
    const { status, fence } = await this.orders.find(orderId);
    const summary =
      answer.status < 400 && fence > fencingToken
        ? `${seconds(freeAfterMs)} after the kill the lease had run out and the callback got the lock, with the larger fencing token ${fence}: the order is ${status}.`
        : `The callback was answered ${answer.status} ${answer.code ?? ''}: the order is ${status}.`;
    this.feed.step(summary, status === 'paid' ? 'good' : 'bad');
    return {
      summary,
      orderId,
      pid,
      freeAfterMs,
      fencingTokenBefore: fencingToken,
      fencingTokenAfter: fence,
      status,
    };
  }

  private async waiterSeen(key: string): Promise<void> {
    const giveUpAt = Date.now() + WAITER_LIMIT_MS;
    while (Date.now() < giveUpAt) {
      if (((await this.locks.inspect(key))?.waitingProcesses ?? 0) > 0) return;
      await sleep(50);
    }
  }
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

const conflict = (code: string, message: string): ConflictException =>
  new ConflictException({ statusCode: 409, code, message });
