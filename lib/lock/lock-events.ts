import { Subject, type Observable } from 'rxjs';
import type { LockEvent } from './lock.js';

/** Where the lock's events come from. Building one costs nothing when nobody listens. */
export class LockEvents {
  readonly #subject = new Subject<LockEvent>();
  readonly stream: Observable<LockEvent> = this.#subject.asObservable();

  /** Whether anybody listens: what is built for an event alone need not be built then. */
  get observed(): boolean {
    return this.#subject.observed;
  }

  emit(type: LockEvent['type'], make: () => Omit<LockEvent, 'type'>): void {
    if (this.#subject.observed) this.#subject.next({ type, ...make() });
  }

  complete(): void {
    this.#subject.complete();
  }
}
