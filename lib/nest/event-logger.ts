import type { LoggerService } from '@nestjs/common';
import { Subscription, type Observable } from 'rxjs';
import type { IdempotencyEvent } from '../idempotency/idempotency.js';
import type { LockEvent } from '../lock/lock.js';

/** One line about the same outage in this time. */
const OUTAGE_EVERY_MS = 10_000;

/** Where the events come from. */
export interface EventSources {
  locks: Observable<LockEvent>;
  idempotency: Observable<IdempotencyEvent>;
}

type Log = Pick<LoggerService, 'log' | 'warn'>;
type Level = 'lifecycle' | 'problem' | 'outage';

const LOCK_LEVEL: Partial<Record<LockEvent['type'], Level>> = {
  acquired: 'lifecycle',
  released: 'lifecycle',
  lost: 'problem',
  extendFailed: 'outage',
  unavailable: 'outage',
};

const IDEMPOTENCY_LEVEL: Partial<Record<IdempotencyEvent['type'], Level>> = {
  started: 'lifecycle',
  completed: 'lifecycle',
  replayed: 'lifecycle',
  takeover: 'problem',
  lost: 'problem',
  storeDown: 'outage',
};

/** A reply that could not be kept or read: its codec fails, and repeats are refused. */
function recordLevel({ type, error }: IdempotencyEvent): Level | undefined {
  return error && IDEMPOTENCY_LEVEL[type] === 'lifecycle' ? 'problem' : IDEMPOTENCY_LEVEL[type];
}

/**
 * Writes events to the application's log. Contention is normal and never logged. An outage makes an event per
 * call: it is logged once in a while, with the number of events between.
 */
export class EventLogger {
  readonly #subscriptions = new Subscription();
  readonly #outages = new Map<string, { at: number; suppressed: number }>();

  constructor(
    private readonly log: Log,
    private readonly mode: 'lifecycle' | 'problems',
    private readonly now: () => number = () => performance.now(),
  ) {}

  start({ locks, idempotency }: EventSources): void {
    this.#subscriptions.add(
      locks.subscribe((event) => this.#write(LOCK_LEVEL[event.type], event.type, () => lockLine(event))),
    );
    this.#subscriptions.add(
      idempotency.subscribe((event) =>
        this.#write(recordLevel(event), `record ${event.type}`, () => recordLine(event)),
      ),
    );
  }

  stop(): void {
    this.#subscriptions.unsubscribe();
  }

  #write(level: Level | undefined, what: string, details: () => string): void {
    if (level === undefined || (level === 'lifecycle' && this.mode !== 'lifecycle')) return;
    if (level === 'lifecycle') this.log.log(`${what} ${details()}`);
    else if (level === 'problem') this.log.warn(`${what} ${details()}`);
    else this.#outage(what, details);
  }

  #outage(what: string, details: () => string): void {
    const at = this.now();
    const last = this.#outages.get(what);
    if (last && at - last.at < OUTAGE_EVERY_MS) {
      last.suppressed += 1;
      return;
    }
    const more = last && last.suppressed > 0 ? ` (and ${last.suppressed} like it before)` : '';
    this.#outages.set(what, { at, suppressed: 0 });
    this.log.warn(`${what} ${details()}${more}`);
  }
}

function lockLine({ key, token, fencingToken, waitedMs, heldMs, error }: LockEvent): string {
  return line(key, { token, fencingToken, waitedMs, heldMs, error: error?.message });
}

function recordLine({ recordKey, attempt, error }: IdempotencyEvent): string {
  return line(recordKey, { attempt, error: error?.message });
}

function line(key: string, fields: Record<string, string | number | undefined>): string {
  const known = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${typeof value === 'number' ? Math.round(value) : value}`);
  return [key, ...known].join(' ');
}
