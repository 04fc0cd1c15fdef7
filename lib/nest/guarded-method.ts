import { defer, from, isObservable, mergeMap, Observable, of } from 'rxjs';
import { processState } from '../process-state.js';
import { argumentsOf, callFromArguments } from './call-factory.js';
import { activeMark, isBare, type CallMark } from './call-mark.js';
import { guardParts } from './guard-parts.js';
import { collectedValue, Emissions } from './emissions.js';
import { GUARD, type GuardSpec } from './guard-spec.js';
import { answerSection, type GuardedSection } from './guarded-section.js';
import { guardedStream } from './guarded-stream.js';
import { holderOf } from './holder.js';

/** What a method's descriptor holds. */
export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** One Proxy around a method. */
interface Layer {
  readonly spec: GuardSpec;
}

const layers = processState('method-layers', () => new WeakMap<object, Layer>());

/**
 * Puts a Proxy around a method: every call that is not guarded further out is guarded here. Both decorators of
 * a method share one Proxy. All of the method's metadata is copied, so that the order among decorators does
 * not matter.
 */
export function guardMethod(spec: GuardSpec, original: Method): Method {
  if (layers.get(original)?.spec === spec) return original;
  const layer: Layer = { spec };
  const proxy = new Proxy(original, {
    apply: (target, self: unknown, args: unknown[]) => enter(layer, target, self, args),
  });
  for (const key of Reflect.getOwnMetadataKeys(original) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, original), proxy);
  }
  Reflect.defineMetadata(GUARD, spec, proxy);
  layers.set(proxy, layer);
  return proxy;
}

/** Whether a method is declared to return an Observable. */
export function returnsObservable({ prototype, method }: GuardSpec): boolean {
  const type: unknown = Reflect.getMetadata('design:returntype', prototype, method);
  const made =
    typeof type === 'function' ? (type.prototype as Partial<Observable<unknown>> | undefined) : undefined;
  return typeof made?.subscribe === 'function' && typeof made.pipe === 'function';
}

function enter(layer: Layer, target: Method, self: unknown, args: unknown[]): unknown {
  const { spec } = layer;
  if (isBare()) return Reflect.apply(target, self, args);
  const cls = (self as object | null | undefined)?.constructor;
  const mark = activeMark(spec, cls, layer);
  if (mark) return passThrough(layer, mark, target, self, args);

  const invoke = (own: CallMark): unknown => passThrough(layer, own, target, self, args);
  const sectionOf = (): GuardedSection => ({
    spec,
    cls,
    parts: guardParts(spec, (name) => holderOf(self, name)),
    call: callFromArguments(spec, args),
    invoke,
  });
  if (!returnsObservable(spec)) return answerPlain(sectionOf);
  return defer(() => {
    const section = sectionOf();
    return section.parts.idempotency
      ? toObservable(answerIdempotent(section))
      : guardedStream(section, (own) => toObservable(invoke(own)));
  });
}

async function answerPlain(sectionOf: () => GuardedSection): Promise<unknown> {
  const section = sectionOf();
  if (section.parts.idempotency) return answerIdempotent(section);
  let stream: Observable<unknown> | undefined;
  const value = await answerSection({
    ...section,
    invoke: async (mark) => {
      const result = await section.invoke(mark);
      if (isObservable(result)) stream = result;
      return stream ? undefined : result;
    },
  });
  if (!stream) return value;
  // Nobody may ever subscribe: the lock is not kept for it, but taken again at each subscription.
  const work = stream;
  return guardedStream(section, () => work);
}

/** A record keeps a value: an Observable is waited for, and is given again as one when it had several. */
async function answerIdempotent(section: GuardedSection): Promise<unknown> {
  const { spec, call, parts } = section;
  const idempotency = parts.idempotency;
  const inner: GuardedSection = {
    ...section,
    invoke: async (mark) => collectedValue(await section.invoke(mark)),
  };
  const value = await answerSection(
    inner,
    idempotency && ((run) => idempotency.runner.handlePlain(idempotency.specFor(spec), call, run)),
  );
  return value instanceof Emissions ? from(value) : value;
}

/** Runs the method itself inside a guarded call, and reports what it does. */
function passThrough(layer: Layer, mark: CallMark, target: Method, self: unknown, args: unknown[]): unknown {
  mark.inProgress.add(layer);
  const running = mark.handler.begin();
  const leave = (): void => {
    mark.inProgress.delete(layer);
  };
  const succeed = (value: unknown): unknown => {
    leave();
    if (isObservable(value)) {
      // Its work begins with a subscription, which may never come.
      running.cutOff();
      return followed(layer, mark, value);
    }
    running.succeeded(value);
    return value;
  };
  const fail = (error: unknown): never => {
    leave();
    running.failed(error);
    throw error;
  };

  let result: unknown;
  try {
    result = Reflect.apply(target, self, withCurrentLock(layer.spec, mark, args));
  } catch (error) {
    return fail(error);
  }
  // A lazy thenable begins its work with `then`: it is called once, here.
  return isThenable(result) ? Promise.resolve(result).then(succeed, fail) : succeed(result);
}

/** The method's Observable, with its subscriptions reported. */
function followed(layer: Layer, mark: CallMark, source: Observable<unknown>): Observable<unknown> {
  return new Observable((subscriber) => {
    mark.inProgress.add(layer);
    const running = mark.handler.begin();
    const leave = (): void => {
      mark.inProgress.delete(layer);
    };
    let last: unknown;
    const subscription = source.subscribe({
      next: (value) => {
        last = value;
        subscriber.next(value);
      },
      error: (error: unknown) => {
        leave();
        running.failed(error);
        subscriber.error(error);
      },
      complete: () => {
        leave();
        running.succeeded(last);
        subscriber.complete();
      },
    });
    return () => {
      subscription.unsubscribe();
      leave();
      running.cutOff();
    };
  });
}

function withCurrentLock(spec: GuardSpec, { lock }: CallMark, args: unknown[]): unknown[] {
  const { currentLock } = argumentsOf(spec);
  if (!lock || currentLock.length === 0) return args;
  const filled = [...args];
  for (const index of currentLock) filled[index] = lock;
  return filled;
}

function toObservable(value: unknown): Observable<unknown> {
  if (isObservable(value)) return value;
  if (!isThenable(value)) return of(value);
  return from(Promise.resolve(value)).pipe(
    mergeMap((result) => (isObservable(result) ? result : of(result))),
  );
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === 'function';
}
