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
  backend: 'redis' | 'memory';
  ok: boolean;
}

export interface Outcome {
  backend: Verdict['backend'];
  effects: Effects;
  tally: Tally;
  /** Callbacks and buyers that never got a final answer. */
  unanswered: number;
  /** Buyers who were told that they have a unit. */
  served: number;
  /** What was under way to the process that was killed. */
  underWayAtKill: ReadonlySet<string>;
  /** What Redis would still grant. */
  remaining: number | null;
}

/** @returns the verdict and, in words, everything that speaks against it. */
export function judge(options: DemoOptions, outcome: Outcome): { verdict: Verdict; faults: string[] } {
  const { effects, tally } = outcome;
  const oversold = Math.max(0, effects.sold - options.units);
  const wanted = Math.min(options.units, options.buyers);
  // A process that is killed between its write and its record leaves the rest to the database: that is what the
  // constraint is for. Anywhere else the module should have been in front of it.
  const unexcused = effects.refused.filter(({ reference }) => !outcome.underWayAtKill.has(reference));
  const faults = [
    [effects.paidTwice > 0, `${effects.paidTwice} orders were paid twice`],
    [effects.ordersPaid < options.orders, `${options.orders - effects.ordersPaid} payments were lost`],
    [oversold > 0, `${oversold} units were sold that are not there`],
    [effects.sold < wanted, `${wanted - effects.sold} units were lost`],
    [
      effects.sold !== outcome.served,
      `${outcome.served} buyers were told yes, ${effects.sold} units are booked`,
    ],
    [
      outcome.remaining !== options.units - effects.sold,
      `Redis has ${outcome.remaining} units left, the database ${options.units - effects.sold}`,
    ],
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
