import type { DemoOptions } from './options.js';
import type { Outcome, Verdict } from './verdict.js';

export const print = (line = ''): void => void process.stdout.write(`${line}\n`);

/** One line per second while the senders work. */
export class Progress {
  callbacks = 0;
  buyers = 0;
  private readonly startedAt = performance.now();
  private readonly timer: NodeJS.Timeout;

  constructor(private readonly options: DemoOptions) {
    this.timer = setInterval(() => this.tell(), 1_000);
  }

  note(text: string): void {
    print(`  ${this.seconds()}  ${text}`);
  }

  stop(): void {
    clearInterval(this.timer);
    this.tell();
  }

  private tell(): void {
    const { orders, deliveries, buyers } = this.options;
    this.note(
      `callbacks answered ${this.callbacks}/${orders * deliveries}, buyers answered ${this.buyers}/${buyers}`,
    );
  }

  private seconds(): string {
    return `${((performance.now() - this.startedAt) / 1_000).toFixed(1).padStart(5)} s`;
  }
}

export function printTable(
  options: DemoOptions,
  verdict: Verdict,
  { tally, served, cancelled, remaining }: Outcome,
): void {
  const rows: [sent: string, count: number | null, effect: string, count: number | null][] = [
    ['orders that wait for payment', options.orders, 'orders paid', verdict.ordersPaid],
    [
      `their callbacks, each ${options.deliveries} times`,
      verdict.callbacks,
      'orders paid twice',
      verdict.paidTwice,
    ],
    ['requests, with every retry', tally.requests, "runs of the callback's handler", verdict.handlerRuns],
    ['answered from the record', verdict.replayed, 'stopped by the database', verdict.stoppedByDatabase],
    ['told "still running, again later"', verdict.rejectedInFlight, '', null],
    ['broken connections', tally.brokenConnections, '', null],
    ['buyers', options.buyers, 'units sold', verdict.sold],
    ['units in stock', verdict.units, 'units oversold', verdict.oversold],
    ['buyers told yes', served, 'units left in Redis', remaining],
    ['orders cancelled', cancelled, 'charged to the merchant', verdict.quotaSpent],
    ['', null, 'differences found in Redis', verdict.differencesFound],
    ['', null, 'left after the repair', verdict.differencesAfterRepair],
  ];
  const line = (sent: string, count: string, effect: string, result: string): string =>
    `  ${sent.padEnd(36)}${count.padStart(6)}   ${effect.padEnd(32)}${result.padStart(6)}`.trimEnd();
  print();
  print(line('sent', '', 'took effect (from the database)', ''));
  print(`  ${'-'.repeat(42)}   ${'-'.repeat(38)}`);
  for (const [sent, count, effect, result] of rows) {
    print(line(sent, String(count ?? ''), effect, String(result ?? '')));
  }
  print();
}
