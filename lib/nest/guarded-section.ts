import type { Lock } from '../lock/lock.js';
import type { CallContext } from './call-context.js';
import { runMarked, type CallMark } from './call-mark.js';
import { deferred } from './deferred.js';
import type { GuardParts } from './guard-parts.js';
import type { GuardSpec } from './guard-spec.js';
import type { GuardedRun } from './guarded-run.js';
import { HandlerTracker } from './handler-tracker.js';
import { LockedTask } from './locked-task.js';

/** One guarded call: what is declared, who is called, and what everything inside is. */
export interface GuardedSection {
  readonly spec: GuardSpec;
  readonly parts: GuardParts;
  readonly call: CallContext;
  /** The class whose method is called. */
  readonly cls: unknown;
  /** Begins everything inside; called in the mark's context. */
  readonly invoke: (mark: CallMark) => unknown;
}

/** How the idempotency layer runs a section, by the kind of call. */
export type IdempotentDoor = (run: () => GuardedRun) => Promise<unknown>;

export function createMark({ spec, cls }: Pick<GuardedSection, 'spec' | 'cls'>): CallMark {
  return { spec, cls, inProgress: new Set(), handler: new HandlerTracker(), active: true };
}

/**
 * Runs a section to its answer: idempotency outside (when `door` is given), the lock inside, then everything of
 * the application.
 */
export async function answerSection(section: GuardedSection, door?: IdempotentDoor): Promise<unknown> {
  const task = new LockedTask(section.spec, section.parts.lock, section.call);
  const run = (): GuardedRun => startRun(section, task);
  try {
    return await (door ? door(run) : run().value);
  } catch (error) {
    const instead = await task.insteadOf(error);
    if (!instead) throw error;
    return instead.value;
  }
}

/**
 * Takes the lock, if one is declared, and begins everything inside. The lock is kept until the chain is over and
 * no run of the method goes on; a chain that ends sooner than the method answers at once.
 */
function startRun(section: GuardedSection, task: LockedTask): GuardedRun {
  const mark = createMark(section);
  const { handler } = mark;
  const answer = deferred<unknown>();
  answer.promise.catch(ignore);

  const inside = async (lock?: Lock): Promise<unknown> => {
    if (lock) mark.lock = lock;
    const chain = runMarked(mark, async () => section.invoke(mark));
    try {
      return await chain;
    } finally {
      mark.active = false;
      if (handler.busy) {
        chain.then(answer.resolve, answer.reject);
        await handler.idle();
      }
    }
  };
  const whole = task.run(inside);
  whole.then(answer.resolve, answer.reject);

  return {
    value: answer.promise,
    settled: whole.then(ignore, ignore),
    handler: () => handler.state,
    outcome: () => handler.outcome,
  };
}

function ignore(): void {}
