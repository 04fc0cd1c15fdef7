import { Observable, type Subscription } from 'rxjs';
import type { Lock } from '../lock/lock.js';
import { runMarked, type CallMark } from './call-mark.js';
import { createMark, type GuardedSection } from './guarded-section.js';
import { LockedTask } from './locked-task.js';

/**
 * A cold Observable that takes the lock at each subscription and holds it until its source ends or its
 * subscriber leaves. Leaving while it waits cancels the waiting.
 */
export function guardedStream(
  section: Omit<GuardedSection, 'invoke'>,
  source: (mark: CallMark) => Observable<unknown>,
): Observable<unknown> {
  return new Observable((subscriber) => {
    const task = new LockedTask(section.spec, section.parts.lock, section.call);
    const waiting = new AbortController();
    let subscription: Subscription | undefined;
    let leave: (() => void) | undefined;

    const inside = async (lock?: Lock): Promise<void> => {
      const mark = createMark(section);
      if (lock) mark.lock = lock;
      try {
        await new Promise<void>((resolve, reject) => {
          if (subscriber.closed) return resolve();
          leave = resolve;
          subscription = runMarked(mark, () =>
            source(mark).subscribe({
              next: (value) => subscriber.next(value),
              error: reject,
              complete: resolve,
            }),
          );
        });
      } finally {
        mark.active = false;
        await mark.handler.idle();
      }
    };
    const end = async (): Promise<void> => {
      try {
        await task.run(inside, waiting.signal);
      } catch (error) {
        const instead = await task.insteadOf(error);
        if (!instead) throw error;
        if (instead.value !== undefined) subscriber.next(instead.value);
      }
    };
    end().then(
      () => subscriber.complete(),
      (error: unknown) => subscriber.error(error),
    );

    return () => {
      waiting.abort();
      subscription?.unsubscribe();
      leave?.();
    };
  });
}
