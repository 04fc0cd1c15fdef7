import { Logger } from '@nestjs/common';
import { EmptyError, Observable } from 'rxjs';
import { collected, Emissions } from './emissions.js';
import { answerSection, type GuardedSection, type IdempotentDoor } from './guarded-section.js';

const logger = new Logger('RedisLock');

/**
 * The answer of a handler whose caller expects one. A client that leaves makes Nest unsubscribe: the work, the
 * lock and the completion go on all the same, so nothing is passed inwards.
 *
 * @param source everything inside: interceptors of the application, pipes, the handler.
 */
export function detachedAnswer(
  section: Omit<GuardedSection, 'invoke'>,
  source: () => Observable<unknown>,
  door: IdempotentDoor | undefined,
): Observable<unknown> {
  return new Observable((subscriber) => {
    let emptied = false;
    const invoke = (): Promise<unknown> =>
      new Promise((resolve, reject) => {
        let last: unknown;
        emptied = true;
        source().subscribe({
          next: (value) => {
            last = value;
            emptied = false;
          },
          error: reject,
          // without a value Nest answers with this error: what is not an answer must not be stored as one
          complete: () => (emptied && section.parts.idempotency ? reject(new EmptyError()) : resolve(last)),
        });
      });
    answerSection({ ...section, invoke }, door).then(
      (value) => {
        // An Observable that ended without a value is Nest's to judge, as it would be without us.
        if (!emptied || value !== undefined) subscriber.next(value);
        subscriber.complete();
      },
      (error: unknown) => {
        if (subscriber.closed)
          logger.warn(`${section.spec.label} failed after its client had gone: ${String(error)}`);
        subscriber.error(error);
      },
    );
  });
}

/**
 * The answers of an idempotent message handler, which may be several: they are given once its record is
 * completed. A caller that leaves stops nothing.
 */
export function detachedAnswers(
  section: Omit<GuardedSection, 'invoke'>,
  source: () => Observable<unknown>,
  door: IdempotentDoor,
): Observable<unknown> {
  return new Observable((subscriber) => {
    answerSection({ ...section, invoke: () => collected(source()) }, door).then(
      (value) => {
        for (const one of value instanceof Emissions ? value : [value]) subscriber.next(one);
        subscriber.complete();
      },
      (error: unknown) => subscriber.error(error),
    );
  });
}
