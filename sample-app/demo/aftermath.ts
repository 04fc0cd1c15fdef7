import type { ReconciliationReport } from '../src/reconciliation/report.js';
import { count } from '../src/reconciliation/report.js';
import type { DemoOptions } from './options.js';
import { print } from './report.js';
import type { SampleProcess } from './sample-process.js';
import { cancellation, purchase, type Scenario } from './scenario.js';
import { inParallel, type Sender } from './sender.js';

/** Longer than the lease that the reconciliation runs under. */
const RECONCILE_FOR_S = 3;
const SHOWN = 5;

export interface Cancelled {
  cancelled: number;
  unanswered: number;
}

/** Every fourth buyer takes the order back, and presses the button twice. */
export async function cancelOrders(
  orders: readonly string[],
  { atOnce }: DemoOptions,
  sender: Sender,
): Promise<Cancelled> {
  const chosen = orders.filter((_, index) => index % 4 === 0);
  let unanswered = 0;
  await inParallel(
    chosen.flatMap((id) => [cancellation(id), cancellation(id)]),
    atOnce,
    async (message) => {
      if (!(await sender.deliver(message, ({ status }) => status === 200))) unanswered += 1;
    },
  );
  print(`  ${count(chosen.length, 'order')} cancelled, each of them twice`);
  return { cancelled: chosen.length, unanswered };
}

/** The cancelled units are for sale again: each of these buyers must get one. */
export async function sellAgain(
  { sku, run }: Scenario,
  units: number,
  { atOnce }: DemoOptions,
  sender: Sender,
): Promise<{ served: number; unanswered: number }> {
  const buyers = Array.from({ length: units }, (_, n) => purchase(sku, `again-${run}-${n}`));
  let served = 0;
  let unanswered = 0;
  await inParallel(buyers, atOnce, async (message) => {
    const answer = await sender.deliver(
      message,
      ({ status, code }) => status === 201 || code === 'QUOTA_EXCEEDED',
    );
    if (!answer) unanswered += 1;
    if (answer?.status === 201) served += 1;
  });
  print(`  ${count(served, 'cancelled unit')} sold again`);
  return { served, unanswered };
}

export interface Reconciled {
  found: number;
  afterRepair: number;
}

/** Compares, repairs, and compares again. */
export async function reconcile({ url }: SampleProcess): Promise<Reconciled> {
  const found = await run(url, { seconds: RECONCILE_FOR_S });
  print(
    `  the reconciliation took ${found.lock.heldMs} ms under a lease of ${found.lock.ttlMs} ms, and found ` +
      count(found.differences.length, 'difference'),
  );
  for (const { text } of found.differences.slice(0, SHOWN)) print(`    ${text}`);
  const rest = found.differences.length - SHOWN;
  if (rest > 0)
    print(`    … and ${rest} more, each with its operation: GET /reconciliation/latest names them all`);
  const { repairs } = await run(url, { repair: true });
  const after = await run(url, {});
  print(
    `  Redis repaired (${count(repairs.length, 'change')}): ${count(after.differences.length, 'difference')} left`,
  );
  for (const { text } of after.differences) print(`    ${text}`);
  return { found: found.differences.length, afterRepair: after.differences.length };
}

async function run(url: string, request: object): Promise<ReconciliationReport> {
  const response = await fetch(`${url}/reconciliation`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(request),
  });
  if (!response.ok)
    throw new Error(`the reconciliation answered ${response.status}: ${await response.text()}`);
  return (await response.json()) as ReconciliationReport;
}
