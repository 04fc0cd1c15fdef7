import { AsyncLocalStorage } from 'node:async_hooks';
import type { Lock } from '../lock/lock.js';
import { processState } from '../process-state.js';
import type { GuardSpec } from './guard-spec.js';
import type { HandlerTracker } from './handler-tracker.js';

/**
 * Says that a call of one method of one class is guarded already, further out in this call chain: the guarded
 * method then runs straight through and reports what it does.
 */
export interface CallMark {
  readonly spec: GuardSpec;
  readonly cls: unknown;
  /** The layers (one per Proxy of the method) that run inside this mark at this moment. */
  readonly inProgress: Set<object>;
  readonly handler: HandlerTracker;
  /** The mark ends with the chain: a call that outlives it is a call of its own. */
  active: boolean;
  lock?: Lock;
}

const marks = processState('call-marks', () => new AsyncLocalStorage<CallMark>());
const bare = processState('without-locks', () => new AsyncLocalStorage<true>());

export function runMarked<T>(mark: CallMark, fn: () => T): T {
  return marks.run(mark, fn);
}

/** The mark that lets this layer of this method of this class run straight through. */
export function activeMark(spec: GuardSpec, cls: unknown, layer: object): CallMark | undefined {
  const mark = marks.getStore();
  return mark?.active === true && mark.spec === spec && mark.cls === cls && !mark.inProgress.has(layer)
    ? mark
    : undefined;
}

/** Runs decorated methods bare in everything that `fn` calls. */
export function runBare<T>(fn: () => T): T {
  return bare.run(true, fn);
}

export function isBare(): boolean {
  return bare.getStore() === true;
}
