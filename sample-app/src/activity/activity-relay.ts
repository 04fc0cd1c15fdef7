import { Logger } from '@nestjs/common';
import { Redis } from 'ioredis';
import { reasonOf } from '../reason-of.js';
import type { ActivityEvent } from './activity-event.js';

const CHANNEL = 'sample:activity';
/** One message carries what happened meanwhile: under load that is much cheaper than a message each. */
const SEND_EVERY_MS = 50;
/** More than anybody can watch: the rest of a burst is dropped, not queued. */
const MOST_PER_MESSAGE = 1_000;

interface Message {
  from: string;
  events: ActivityEvent[];
}

/**
 * Tells the other processes what happened here, over Redis' publish and subscribe. For watching only: a message that
 * is lost is lost, nobody waits for one, and nothing is decided on one.
 */
export class ActivityRelay {
  private readonly logger = new Logger(ActivityRelay.name);
  private readonly publisher: Redis;
  private readonly subscriber: Redis;
  private pending: ActivityEvent[] = [];
  private timer?: NodeJS.Timeout;

  constructor(
    url: string,
    private readonly self: string,
    onEvents: (events: ActivityEvent[]) => void,
  ) {
    this.publisher = new Redis(url, { enableOfflineQueue: false, maxRetriesPerRequest: 0 });
    this.subscriber = new Redis(url, { maxRetriesPerRequest: null });
    // The module's own connections tell of an outage already.
    for (const client of [this.publisher, this.subscriber]) client.on('error', () => undefined);
    this.subscriber.on('message', (_, text: string) => {
      const { from, events } = JSON.parse(text) as Message;
      if (from !== this.self) onEvents(events);
    });
    this.subscriber.subscribe(CHANNEL).catch((error: unknown) => this.unheard(error));
  }

  send(event: ActivityEvent): void {
    if (this.pending.length >= MOST_PER_MESSAGE) return;
    this.pending.push(event);
    this.timer ??= setTimeout(() => this.flush(), SEND_EVERY_MS).unref();
  }

  close(): void {
    clearTimeout(this.timer);
    this.publisher.disconnect();
    this.subscriber.disconnect();
  }

  private flush(): void {
    this.timer = undefined;
    const message: Message = { from: this.self, events: this.pending };
    this.pending = [];
    this.publisher.publish(CHANNEL, JSON.stringify(message)).catch((error: unknown) => this.unheard(error));
  }

  private unheard(error: unknown): void {
    this.logger.debug(`Other processes do not hear of this: ${reasonOf(error)}`);
  }
}
