import { AsyncLocalStorage } from 'node:async_hooks';
import { processState } from '../process-state.js';
import type { Hold } from './hold.js';
import type { Lock } from './lock.js';

/** A lock that a call chain can run under. */
export interface ChainedLock extends Lock {
  /** The hold of this full key, if the lock has one. */
  holdOf(fullKey: string): Hold | undefined;
}

interface Frame {
  /** Whose lock it is: the same key of another instance of the module is another lock. */
  readonly owner: object;
  readonly lock: ChainedLock;
  readonly parent: Frame | undefined;
}

const chains = processState('lock/call-chain', () => new AsyncLocalStorage<Frame>());

/** Runs `fn` in a call chain under this lock. */
export function runUnder<T>(owner: object, lock: ChainedLock, fn: () => T): T {
  let parent = chains.getStore();
  // a detached loop that locks again and again would else drag its dead frames along for ever
  while (parent && !parent.lock.held) parent = parent.parent;
  return chains.run({ owner, lock, parent }, fn);
}

/** The innermost held lock that `matches` in this call chain. */
export function findInChain<T>(owner: object, matches: (lock: ChainedLock) => T | undefined): T | undefined {
  for (let frame = chains.getStore(); frame; frame = frame.parent) {
    if (frame.owner !== owner || !frame.lock.held) continue;
    const found = matches(frame.lock);
    if (found !== undefined) return found;
  }
  return undefined;
}
