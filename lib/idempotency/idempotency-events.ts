import { Subject, type Observable } from 'rxjs';
import type { IdempotencyCounters, IdempotencyEvent } from './idempotency.js';

/** Where the events of idempotency come from, and how many there were. */
export class IdempotencyEvents {
  readonly #subject = new Subject<IdempotencyEvent>();
  readonly stream: Observable<IdempotencyEvent> = this.#subject.asObservable();
  readonly #counts: Record<IdempotencyEvent['type'], number> = {
    started: 0,
    completed: 0,
    replayed: 0,
    inProgress: 0,
    mismatch: 0,
    takeover: 0,
    lost: 0,
    storeDown: 0,
  };

  /** As they stand at this moment. */
  get counters(): IdempotencyCounters {
    return { ...this.#counts };
  }

  emit(event: IdempotencyEvent): void {
    this.#counts[event.type]++;
    this.#subject.next(event);
  }

  complete(): void {
    this.#subject.complete();
  }
}
