import { Subject, type Observable } from 'rxjs';
import type { IdempotencyEvent } from './idempotency.js';

/** Where the events of idempotency come from. */
export class IdempotencyEvents {
  readonly #subject = new Subject<IdempotencyEvent>();
  readonly stream: Observable<IdempotencyEvent> = this.#subject.asObservable();

  emit(event: IdempotencyEvent): void {
    this.#subject.next(event);
  }

  complete(): void {
    this.#subject.complete();
  }
}
