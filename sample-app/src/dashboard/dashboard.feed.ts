import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { LockService } from 'nestjs-redis-lock';
import {
  Subject,
  bufferTime,
  concatMap,
  debounceTime,
  defer,
  distinctUntilChanged,
  exhaustMap,
  filter,
  from,
  interval,
  map,
  merge,
  share,
  takeUntil,
  throttleTime,
  type Observable,
  type Subscription,
} from 'rxjs';
import type { CallbackActivity, SectionActivity } from '../activity/activity-event.js';
import { ActivityService } from '../activity/activity.service.js';
import { OrdersService } from '../orders/orders.service.js';
import { reasonOf } from '../reason-of.js';
import { REDIS_SOURCE, type RedisSource } from '../redis/redis-source.js';
import { actionsOff } from './actions.guard.js';
import type { CallbackCounts, DashboardMessage, Fault, HeldLocks, Hello, Step } from './dashboard-message.js';
import { GatesReader } from './gates.reader.js';

const KEPT_SECTIONS = 400;
const KEPT_STEPS = 40;
const MOST_LOCKS = 12;
/** What comes together goes out together: nobody reads faster. */
const BATCH_MS = 100;
const GATES_EVERY_MS = 250;
const SETTLED_AFTER_MS = 500;
const LOCKS_EVERY_MS = 400;

/** What the page shows, as a stream. It reads locks and gates only while somebody watches. */
@Injectable()
export class DashboardFeed implements OnModuleInit, OnModuleDestroy {
  private readonly counts: CallbackCounts = { in: 0, taken: 0, replayed: 0, refused: 0, reasons: {} };
  private readonly sections: SectionActivity[] = [];
  private readonly steps: Step[] = [];
  private readonly newSteps = new Subject<Step>();
  private readonly closing = new Subject<void>();
  private watching?: Subscription;

  constructor(
    private readonly activity: ActivityService,
    private readonly locks: LockService,
    private readonly orders: OrdersService,
    private readonly gates: GatesReader,
    @Inject(REDIS_SOURCE) private readonly redis: RedisSource,
  ) {}

  /** From the first moment on: a page that is opened later sees what came before. */
  onModuleInit(): void {
    this.watching = this.activity.events.subscribe((event) => {
      if (event.type === 'callback') this.count(event);
      if (event.type === 'section') keep(this.sections, event, KEPT_SECTIONS);
    });
  }

  /** True when the application is on its way down. */
  get closed(): boolean {
    return this.closing.closed;
  }

  /** Open streams are open requests: a server that waits for them would never close. */
  onModuleDestroy(): void {
    this.closing.next();
    this.closing.unsubscribe();
    this.watching?.unsubscribe();
  }

  /** Begins with the whole picture; what happens while that is read is not missed. */
  get messages(): Observable<DashboardMessage> {
    const hello = defer(() => from(this.hello())).pipe(map((data) => ({ type: 'hello', data }) as const));
    return merge(this.live, hello).pipe(takeUntil(this.closing));
  }

  /** Adds a line to the story that the page tells. */
  step(text: string, tone: Step['tone'] = 'plain'): void {
    const step = { at: Date.now(), text, tone };
    keep(this.steps, step, KEPT_STEPS);
    this.newSteps.next(step);
  }

  /** One set of timers and look-ups, however many watch. */
  private readonly live: Observable<DashboardMessage> = defer(() => {
    const { events } = this.activity;
    const callbacks = events.pipe(
      filter((event) => event.type === 'callback'),
      throttleTime(BATCH_MS, undefined, { leading: false, trailing: true }),
      map(() => ({ type: 'callbacks', data: this.counts }) as const),
    );
    const sections = events.pipe(
      filter((event) => event.type === 'section'),
      bufferTime(BATCH_MS),
      filter(({ length }) => length > 0),
      map((data) => ({ type: 'sections', data: data.slice(-KEPT_SECTIONS) }) as const),
    );
    // Redis grants first and the database books a moment later: the last look is at both.
    const gates = merge(
      events.pipe(
        filter(({ type }) => type === 'stock' || type === 'quota'),
        throttleTime(GATES_EVERY_MS, undefined, { leading: true, trailing: true }),
      ),
      events.pipe(debounceTime(SETTLED_AFTER_MS)),
    ).pipe(concatMap(async () => ({ type: 'gates', data: await this.gates.read() }) as const));
    const locks = interval(LOCKS_EVERY_MS).pipe(
      exhaustMap(async () => ({ type: 'locks', data: await this.heldLocks() }) as const),
      distinctUntilChanged((a, b) => JSON.stringify(a) === JSON.stringify(b)),
    );
    const steps = this.newSteps.pipe(map((data) => ({ type: 'step', data }) as const));
    return merge(callbacks, sections, gates, locks, steps);
  }).pipe(share());

  private async hello(): Promise<Hello> {
    const [gates, locks, order] = await Promise.all([
      this.gates.read(),
      this.heldLocks(),
      this.pendingOrder().catch(() => null),
    ]);
    return {
      process: this.activity.process,
      shared: this.redis.kind === 'redis',
      actionsOff: actionsOff(),
      callbacks: this.counts,
      sections: this.sections,
      steps: this.steps,
      gates,
      locks,
      order,
    };
  }

  private async heldLocks(): Promise<HeldLocks | Fault> {
    const locks: HeldLocks['locks'] = [];
    try {
      // Without the token: whoever reads it could release the lock.
      for await (const { key, fencingToken, remainingMs, waitingProcesses } of this.locks.list()) {
        if (locks.length === MOST_LOCKS) return { locks, more: true };
        locks.push({ key, fencingToken, remainingMs, waitingProcesses });
      }
      return { locks: locks.sort((a, b) => a.key.localeCompare(b.key)), more: false };
    } catch (error) {
      return { fault: `The locks cannot be read: ${reasonOf(error)}` };
    }
  }

  private async pendingOrder(): Promise<Hello['order']> {
    const order = (await this.orders.list(20)).find(({ status }) => status === 'pending');
    return order ? { id: order.id, amount: order.amount } : null;
  }

  private count({ outcome, reason }: CallbackActivity): void {
    this.counts[outcome] += 1;
    if (reason !== undefined) this.counts.reasons[reason] = (this.counts.reasons[reason] ?? 0) + 1;
  }
}

function keep<T>(list: T[], item: T, most: number): void {
  list.push(item);
  if (list.length > most) list.shift();
}
