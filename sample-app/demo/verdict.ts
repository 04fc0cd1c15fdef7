import type { Reconciled } from './aftermath.js';
import type { Effects } from './effects.js';
import type { DemoOptions } from './options.js';
import type { Tally } from './sender.js';

/** The demo's last line. */
export interface Verdict {
  callbacks: number;
  ordersPaid: number;
  paidTwice: number;
  handlerRuns: number;
  stoppedByDatabase: number;
  units: number;
  sold: number;
  oversold: number;
  replayed: number;
  rejectedInFlight: number;
  /** What the reconciliation found after the rush; null where it did not run. */
  differencesFound: number | null;
  differencesAfterRepair: number | null;
  /** What the merchant was charged, by the database. */
  quotaSpent: number;
  /** One unit per paid order, in the merchant's row, in the journal and in Redis. */
  quotaRight: boolean;
  backend: 'redis' | 'memory';
  ok: boolean;
}

export interface Outcome {
  backend: Verdict['backend'];
  effects: Effects;
  tally: Tally;
  /** Callbacks and buyers that never got a final answer. */
  unanswered: number;
  /** How often a buyer was told: you have a unit. */
  served: number;
  /** How many of these took it back. */
  cancelled: number;
  /** What was under way to the process that was killed. */
  underWayAtKill: ReadonlySet<string>;
  /** When Redis was restarted from an older snapshot, if it was. */
  rewoundAt: Date | undefined;
  /** Null where it did not run. */
  reconciled: Reconciled | null;
  /** What Redis would still grant, of the stock and of the merchant's quota. */
  remaining: number | null;
  quotaRemaining: number | null;
}

/** @returns the verdict and, in words, everything that speaks against it. */
export function judge(options: DemoOptions, outcome: Outcome): { verdict: Verdict; faults: string[] } {
  const { effects, tally } = outcome;
  const oversold = Math.max(0, effects.sold - options.units);
  const wanted = Math.min(options.units, options.buyers);
  // A process that is killed between its write and its record leaves the rest to the database, and so does a Redis that
  // has forgotten what it granted: that is what the constraints are for. Anywhere else the module should have been in
  // front of them.
  const rewoundAt = outcome.rewoundAt?.toISOString() ?? '9999';
  const unexcused = effects.refused.filter(
    ({ reference, created_at }) => !outcome.underWayAtKill.has(reference) && created_at < rewoundAt,
  );
  const { quota } = effects;
  const quotaRight =
    quota.spent === effects.ordersPaid &&
    quota.journaled === quota.spent &&
    outcome.quotaRemaining === quota.granted - quota.spent;
  const { found: differences = null, afterRepair = null } = outcome.reconciled ?? {};
  const faults = [
    [effects.paidTwice > 0, `${effects.paidTwice} orders were paid twice`],
    [effects.ordersPaid < options.orders, `${options.orders - effects.ordersPaid} payments were lost`],
    [oversold > 0, `${oversold} units were sold that are not there`],
    [effects.sold < wanted, `${wanted - effects.sold} units were lost`],
    [
      effects.sold !== outcome.served - outcome.cancelled,
      `${outcome.served - outcome.cancelled} buyers were told yes, ${effects.sold} units are booked`,
    ],
    [
      outcome.remaining !== options.units - effects.sold,
      `Redis has ${outcome.remaining} units left, the database ${options.units - effects.sold}`,
    ],
    [
      !quotaRight,
      `${effects.ordersPaid} orders are paid, and the merchant was charged ${quota.spent} ` +
        `(${quota.journaled} in the journal, ${outcome.quotaRemaining} of ${quota.granted} left in Redis)`,
    ],
    [
      outcome.rewoundAt !== undefined && differences === 0,
      'Redis lost a part of its work, and the reconciliation found nothing',
    ],
    [(afterRepair ?? 0) > 0, `${afterRepair} differences are left after the repair`],
    [outcome.unanswered > 0, `${outcome.unanswered} senders never got a final answer`],
    [unexcused.length > 0, `the database had to stop ${unexcused.length} writes (${reasons(unexcused)})`],
  ] as const;
  const found = faults.filter(([present]) => present).map(([, text]) => text);
  const verdict: Verdict = {
    callbacks: options.orders * options.deliveries,
    ordersPaid: effects.ordersPaid,
    paidTwice: effects.paidTwice,
    handlerRuns: effects.handlerRuns,
    stoppedByDatabase: effects.refused.length,
    units: options.units,
    sold: effects.sold,
    oversold,
    replayed: tally.replayed,
    rejectedInFlight: tally.rejectedInFlight,
    differencesFound: differences,
    differencesAfterRepair: afterRepair,
    quotaSpent: quota.spent,
    quotaRight,
    backend: outcome.backend,
    ok: found.length === 0,
  };
  return { verdict, faults: found };
}

function reasons(refused: Effects['refused']): string {
  const counts = new Map<string, number>();
  for (const { reason } of refused) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return [...counts].map(([reason, count]) => `${count} × ${reason}`).join(', ');
}
