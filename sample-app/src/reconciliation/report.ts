/** What a run of the reconciliation has found, and changed. */
export interface ReconciliationReport {
  /** The run's fencing token: later runs have larger ones. */
  id: number;
  startedAt: string;
  finishedAt: string;
  lines: GateLine[];
  differences: Difference[];
  /** What was changed in Redis, in words; empty unless a repair was asked for. */
  repairs: string[];
  /** What the watchdog did: the run took `heldMs` under a lease of `ttlMs`, and this much was always left of it. */
  lock: { ttlMs: number; heldMs: number; leastRemainingMs: number };
}

/** One gate: the same number, how much of it is taken, from four places. */
export interface GateLine {
  gate: string;
  granted: number;
  /** By the orders. */
  orders: number;
  /** By the journal. */
  journal: number;
  /** By the count in the article's or merchant's row. */
  booked: number;
  /** By Redis; null where Redis has no such quota and nothing is left to take. */
  redis: number | null;
  /** False: so much was going on that no moment without a booking was found. Compare again. */
  settled: boolean;
}

export interface Difference {
  kind: DifferenceKind;
  gate?: string;
  orderId?: string;
  /** The operation that Redis does not know as the journal does. */
  operationId?: string;
  /** By how much. */
  amount: number;
  /** In words. */
  text: string;
}

/**
 * - `missing`: booked, but Redis does not know that it was taken: it lost it, and would grant the units again.
 * - `not-given-back`: booked as given back, but Redis has it as taken: the units cannot be sold.
 * - `unexplained`: what is left of Redis' difference, e.g. units taken for an order that was never booked.
 * - `database`: orders, payments, journal and counts do not agree with each other. Never repaired by a program.
 */
export type DifferenceKind = 'missing' | 'not-given-back' | 'unexplained' | 'database';

const COLUMNS = ['granted', 'orders', 'journal', 'booked', 'redis'] as const;

/** For a terminal. */
export function reportTable({
  id,
  startedAt,
  lines,
  differences,
  repairs,
  lock,
}: ReconciliationReport): string {
  const width = Math.max(4, ...lines.map(({ gate }) => gate.length));
  const row = (gate: string, cells: readonly string[], note: string): string =>
    `${gate.padEnd(width)}${cells.map((cell) => cell.padStart(10)).join('')}  ${note}`.trimEnd();
  return [
    `Reconciliation ${id} of ${startedAt}: ${count(differences.length, 'difference')}, ` +
      `${lock.heldMs} ms under a lease of ${lock.ttlMs} ms`,
    '',
    row('gate', COLUMNS, ''),
    ...lines.map((line) =>
      row(
        line.gate,
        COLUMNS.map((column) => String(line[column] ?? '-')),
        noteOf(line),
      ),
    ),
    ...(differences.length > 0 ? ['', ...differences.map(({ kind, text }) => `${kind}: ${text}`)] : []),
    ...(repairs.length > 0 ? ['', ...repairs.map((text) => `repaired: ${text}`)] : []),
    '',
  ].join('\n');
}

function noteOf({ orders, journal, booked, redis, settled }: GateLine): string {
  if (!settled) return 'in motion';
  return orders === journal && journal === booked && (redis === null || redis === booked) ? '' : 'differs';
}

export const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;
