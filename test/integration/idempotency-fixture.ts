import { redisBackend } from '../../lib/backend/redis/redis-backend.js';
import type { Backend } from '../../lib/backend/backend.js';
import { IdempotencyEngine } from '../../lib/idempotency/idempotency-engine.js';
import type { IdempotencyEvent } from '../../lib/idempotency/idempotency.js';
import type { Clock } from '../../lib/lock/validity.js';
import { IdempotencyService } from '../../lib/nest/idempotency.service.js';
import { waitFor } from '../support/wait-for.js';

/** One process's idempotency, as the module puts it together, with connections of its own. */
export interface Site {
  backend: Backend;
  engine: IdempotencyEngine;
  service: IdempotencyService;
  /** Everything that happened, in order. */
  events: IdempotencyEvent[];
  /** Waits until an event of this type has happened. */
  seen(type: IdempotencyEvent['type']): Promise<IdempotencyEvent>;
}

/** Opens sites and closes them all. */
export class Sites {
  private readonly open: Site[] = [];

  async start(url: string, options: { clock?: Clock } = {}): Promise<Site> {
    const backend = redisBackend({ redis: url });
    await backend.start(5_000);
    const engine = new IdempotencyEngine({ backend, ...options });
    const events: IdempotencyEvent[] = [];
    engine.events.subscribe((event) => events.push(event));
    const site: Site = {
      backend,
      engine,
      service: new IdempotencyService(engine),
      events,
      seen: (type) =>
        waitFor(() => events.find((event) => event.type === type), { what: `the event ${type}` }),
    };
    this.open.push(site);
    return site;
  }

  async closeAll(): Promise<void> {
    for (const { engine, backend } of this.open.splice(0)) {
      await engine.close(0);
      await backend.close();
    }
  }
}

/** A promise that is settled from outside. */
export function deferred<T = void>(): {
  promise: Promise<T>;
  resolve: (value: T) => void;
  reject: (error: unknown) => void;
} {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}

let keys = 0;

/** A key that no other test uses. */
export function freshKey(): string {
  return `payment:${process.pid}:${++keys}`;
}
