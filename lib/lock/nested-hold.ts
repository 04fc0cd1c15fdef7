import { LockAbortedError, LockBusyError, LockClosedError, LockTimeoutError } from '../errors.js';
import { outsideCallChain } from '../outside-call-chain.js';
import { LONGEST_TIMER_MS } from './delay.js';
import type { Budget } from './budget.js';
import { Hold } from './hold.js';

/**
 * Takes a key that the call chain holds already: no command, the parent's fencing token, but in turn with the
 * parent's other nested holds.
 *
 * @returns null when the parent ended meanwhile: a context that outlives its lock takes it afresh.
 */
export async function nestedHold(parent: Hold, budget: Budget, closed: AbortSignal): Promise<Hold | null> {
  const { name } = parent.lease.key;
  if (budget.timeoutMs === 0 && !parent.turns.idle) throw new LockBusyError([name]);
  const turn = parent.turns.enter();
  try {
    await inTime(turn.granted, budget, closed, name);
  } catch (error) {
    turn.end();
    throw error;
  }
  if (parent.alive) return new Hold(parent.lease, parent.fencingToken, turn);
  turn.end();
  return null;
}

function inTime(granted: Promise<void>, budget: Budget, closed: AbortSignal, key: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer =
      budget.timeoutMs === 0 || budget.leftMs > LONGEST_TIMER_MS
        ? undefined
        : outsideCallChain(() =>
            setTimeout(
              () => settle(() => reject(new LockTimeoutError([key], budget.spentMs))),
              budget.leftMs,
            ),
          );
    const onAbort = (): void => settle(() => reject(new LockAbortedError([key], budget.signal?.reason)));
    const onClosed = (): void => settle(() => reject(new LockClosedError([key])));
    const settle = (how: () => void): void => {
      clearTimeout(timer);
      budget.signal?.removeEventListener('abort', onAbort);
      closed.removeEventListener('abort', onClosed);
      how();
    };
    budget.signal?.addEventListener('abort', onAbort, { once: true });
    closed.addEventListener('abort', onClosed, { once: true });
    void granted.then(() => settle(resolve));
  });
}
