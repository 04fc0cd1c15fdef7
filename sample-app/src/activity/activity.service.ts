import { randomUUID } from 'node:crypto';
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { LockService, type LockEvent } from 'nestjs-redis-lock';
import { Subject, type Observable, type Subscription } from 'rxjs';
import { REDIS_SOURCE, type RedisSource } from '../redis/redis-source.js';
import type { ActivityEvent } from './activity-event.js';
import { ActivityRelay } from './activity-relay.js';

export type { ActivityEvent } from './activity-event.js';

/** Sections whose end was never told (a lock that was lost to an outage) are forgotten behind this many. */
const MOST_OPEN_SECTIONS = 10_000;

/**
 * The shop's activity as a stream: what this process does, and, where they share a Redis, what the others do. Only for
 * watching (the page, a log): it keeps nothing, and nothing may depend on it.
 */
@Injectable()
export class ActivityService implements OnApplicationBootstrap, OnApplicationShutdown {
  /** How this process is called in its sections. */
  readonly process = `pid ${process.pid}`;
  private readonly subject = new Subject<ActivityEvent>();
  /** Everything from now on. */
  readonly events: Observable<ActivityEvent> = this.subject.asObservable();
  private readonly openSections = new Map<string, number>();
  private relay?: ActivityRelay;
  private locks?: Subscription;

  constructor(
    private readonly lockService: LockService,
    @Inject(REDIS_SOURCE) private readonly redis: RedisSource,
  ) {}

  onApplicationBootstrap(): void {
    if (this.redis.kind === 'redis') {
      // Not the pid: two applications in one process are two.
      this.relay = new ActivityRelay(this.redis.url, randomUUID(), (events) =>
        events.forEach((event) => this.subject.next(event)),
      );
    }
    this.locks = this.lockService.events.subscribe((event) => this.follow(event));
  }

  onApplicationShutdown(): void {
    this.locks?.unsubscribe();
    this.relay?.close();
    this.subject.complete();
  }

  tell(event: ActivityEvent): void {
    this.subject.next(event);
    this.relay?.send(event);
  }

  /** Every section under any lock is told by the locks themselves: services need not think of it. */
  private follow({ type, key, fencingToken, heldMs }: LockEvent): void {
    if (fencingToken === undefined) return;
    // Tokens of different keys may be the same number.
    const section = `${fencingToken} ${key}`;
    if (type === 'acquired') {
      this.openSections.set(section, Date.now());
      if (this.openSections.size <= MOST_OPEN_SECTIONS) return;
      const [oldest] = this.openSections.keys();
      this.openSections.delete(oldest!);
    }
    if (type !== 'released' && type !== 'lost') return;
    const startedAt = this.openSections.get(section);
    if (startedAt === undefined) return;
    this.openSections.delete(section);
    // Not the time of this event: a release is told when Redis has answered, and by then the next holder may run.
    const endedAt = Math.floor(startedAt + (heldMs ?? 0));
    this.tell({ type: 'section', key, fencingToken, startedAt, endedAt, process: this.process });
  }
}
