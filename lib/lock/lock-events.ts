import { merge, Subject, type Observable } from 'rxjs';
import type { LockEvent } from './lock.js';

/** What every lock does. Everything else is a problem, and rare. */
const ORDINARY: ReadonlySet<LockEvent['type']> = new Set(['acquired', 'released', 'contended']);

/** Where the lock's events come from. Building one costs nothing when nobody listens to its kind. */
export class LockEvents {
  readonly #ordinary = new Subject<LockEvent>();
  readonly #problems = new Subject<LockEvent>();
  readonly stream: Observable<LockEvent> = merge(this.#ordinary, this.#problems);
  /** Only what went wrong: who wants no more than that does not make every lock tell. */
  readonly problems: Observable<LockEvent> = this.#problems.asObservable();

  /** Whether anybody listens to what every lock does: what is built for that alone need not be built then. */
  get observed(): boolean {
    return this.#ordinary.observed;
  }

  emit(type: LockEvent['type'], make: () => Omit<LockEvent, 'type'>): void {
    const subject = ORDINARY.has(type) ? this.#ordinary : this.#problems;
    if (subject.observed) subject.next({ type, ...make() });
  }

  complete(): void {
    this.#ordinary.complete();
    this.#problems.complete();
  }
}
