import { randomUUID } from 'node:crypto';
import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import type { Lock } from 'nestjs-redis-lock';
import { Subject, type Observable } from 'rxjs';
import { REDIS_SOURCE, type RedisSource } from '../redis/redis-source.js';
import type { ActivityEvent } from './activity-event.js';
import { ActivityRelay } from './activity-relay.js';

export type { ActivityEvent } from './activity-event.js';

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
  private relay?: ActivityRelay;

  constructor(@Inject(REDIS_SOURCE) private readonly redis: RedisSource) {}

  onApplicationBootstrap(): void {
    if (this.redis.kind === 'redis') {
      // Not the pid: two applications in one process are two.
      this.relay = new ActivityRelay(this.redis.url, randomUUID(), (events) =>
        events.forEach((event) => this.subject.next(event)),
      );
    }
  }

  onApplicationShutdown(): void {
    this.relay?.close();
    this.subject.complete();
  }

  tell(event: ActivityEvent): void {
    this.subject.next(event);
    this.relay?.send(event);
  }

  /**
   * Runs a critical section and tells when it began and ended. To be called inside the lock, so that the times are the
   * section's own: the lock itself is held a little longer, and its release is told later.
   */
  async section<T>(lock: Lock, task: () => Promise<T>): Promise<T> {
    const startedAt = Date.now();
    try {
      return await task();
    } finally {
      const { keys, fencingToken } = lock;
      const key = keys.join(' ');
      this.tell({
        type: 'section',
        key,
        fencingToken,
        startedAt,
        endedAt: Date.now(),
        process: this.process,
      });
    }
  }
}
