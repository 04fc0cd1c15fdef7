import { isObservable, type Observable } from 'rxjs';

/**
 * The values of an Observable that gave more than one. A record keeps one value: the first caller gets all of
 * them, and a repeat is told that they cannot be given again.
 */
export class Emissions extends Array<unknown> {
  /** What `map` and the like make of it is a list as any other. */
  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }
}

/** What an Observable gave once it has ended: nothing (undefined), its value, or its {@link Emissions}. */
export function collected(source: Observable<unknown>): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const values = new Emissions();
    source.subscribe({
      next: (value) => values.push(value),
      error: reject,
      complete: () => resolve(values.length > 1 ? values : values[0]),
    });
  });
}

/** The value of a handler that may return an Observable. */
export function collectedValue(result: unknown): unknown {
  return isObservable(result) ? collected(result) : result;
}
