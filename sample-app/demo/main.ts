import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Database, type DatabaseSettings } from '../src/database/database.js';
import { openRedisSource, type RedisSource } from '../src/redis/redis-source.js';
import { cancelOrders, reconcile, sellAgain } from './aftermath.js';
import { readEffects } from './effects.js';
import { parseDemoOptions, type DemoOptions } from './options.js';
import { Progress, print, printTable } from './report.js';
import { SampleProcess } from './sample-process.js';
import { planScenario, prepareDatabase, type Scenario } from './scenario.js';
import { Rewind } from './rewind.js';
import { inParallel, newTally, Sender, type Answer, type Message } from './sender.js';
import { judge, type Outcome } from './verdict.js';

const DOWN_FOR_MS = 500;

async function main(): Promise<boolean> {
  const options = parseDemoOptions(process.argv.slice(2));
  const folder = mkdtempSync(join(tmpdir(), 'sample-demo-'));
  const settings: DatabaseSettings = { url: process.env.DATABASE_URL, file: join(folder, 'demo.db') };
  const redis = await openRedisSource();
  try {
    print(`Locks live in ${redis.description}.`);
    if (options.withoutModule) print('The decorators are switched off: no idempotency records, no locks.');
    return await demonstrate(options, settings, redis);
  } finally {
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function demonstrate(
  options: DemoOptions,
  settings: DatabaseSettings,
  redis: RedisSource,
): Promise<boolean> {
  const scenario = planScenario(randomUUID().slice(0, 8), options);
  const database = await Database.open(settings);
  await prepareDatabase(database, scenario, options);
  print(`Orders live in the ${database.description}.`);
  await database.close();

  const processes = sampleProcesses(options, settings, redis);
  try {
    await Promise.all(processes.map((one) => one.start()));
    print(`Running: ${processes.map(({ name, pid, url }) => `${name} (pid ${pid}) at ${url}`).join(', ')}.`);
    const sent = await runScenario(options, scenario, processes, redis);
    const [first] = processes;
    const outcome: Outcome = {
      backend: redis.kind,
      ...sent,
      remaining: await remainingInRedis(`${first!.url}/inventory/${scenario.sku}`),
      quotaRemaining: await remainingInRedis(`${first!.url}/merchants/${scenario.merchantId}`),
      effects: await readEffects(settings, scenario),
    };
    const { verdict, faults } = judge(options, outcome);
    printTable(options, verdict, outcome);
    for (const fault of faults) print(`  NOT OK: ${fault}.`);
    print(JSON.stringify(verdict));
    return verdict.ok;
  } finally {
    await Promise.all(processes.map((one) => one.stop()));
  }
}

/** Two processes on one Redis; in memory there is one, because a second would not see the first one's locks. */
function sampleProcesses(
  options: DemoOptions,
  settings: DatabaseSettings,
  redis: RedisSource,
): SampleProcess[] {
  const env: Record<string, string> = { DATABASE_FILE: settings.file ?? '' };
  if (redis.kind === 'redis') env.REDIS_URL = redis.url;
  const names = redis.kind === 'redis' ? ['process 1', 'process 2'] : ['the process'];
  return names.map((name) => new SampleProcess(name, env, options.withoutModule));
}

type Sent = Omit<Outcome, 'backend' | 'remaining' | 'quotaRemaining' | 'effects'>;

/** Callbacks and buyers at the same time, then cancellations, the reconciliation, and the cancelled units again. */
async function runScenario(
  options: DemoOptions,
  scenario: Scenario,
  processes: SampleProcess[],
  redis: RedisSource,
): Promise<Sent> {
  const tally = newTally();
  const sender = new Sender(processes, tally);
  const { orders, ...rush } = await runRush(options, scenario, processes, sender, redis);
  const { cancelled, unanswered } = await cancelOrders(orders, options, sender);
  // Without locks there is no fencing token to keep a reconciliation's report under.
  const reconciled = options.withoutModule ? null : await reconcile(processes[0]!);
  const again = await sellAgain(scenario, cancelled, options, sender);
  return {
    ...rush,
    tally,
    cancelled,
    reconciled,
    served: orders.length + again.served,
    unanswered: rush.unanswered + unanswered + again.unanswered,
  };
}

interface Rush {
  /** The buyers' orders. */
  orders: string[];
  unanswered: number;
  underWayAtKill: Set<string>;
  rewoundAt: Date | undefined;
}

/** Callbacks first; buyers from a third of them on, and Redis is rewound under them; the kill at half hits both. */
async function runRush(
  options: DemoOptions,
  scenario: Scenario,
  processes: SampleProcess[],
  sender: Sender,
  redis: RedisSource,
): Promise<Rush> {
  const progress = new Progress(options);
  const server = redis.kind === 'redis' && !options.withoutModule ? redis.server : undefined;
  let disasters: Promise<void> = Promise.resolve();
  const oneAtATime = (disaster: () => Promise<void>): Promise<void> => (disasters = disasters.then(disaster));
  const rewind = new Rewind(server, options, progress, oneAtATime);
  const underWayAtKill = new Set<string>();
  const total = scenario.callbacks.length;
  const orders: string[] = [];
  let unanswered = 0;
  let buying: Promise<void> | undefined;
  let killing: Promise<void> | undefined;

  const buy = async (message: Message): Promise<void> => {
    const answer = await sender.deliver(message, isBuyersAnswer);
    if (!answer) unanswered += 1;
    if (answer?.status === 201) orders.push(answer.id!);
    progress.buyers += 1;
    rewind.advance(orders.length);
  };
  const kill = (victim: SampleProcess): Promise<void> =>
    oneAtATime(() => killAndRestart(victim, underWayAtKill, progress));
  const notify = async (message: Message): Promise<void> => {
    if (!(await sender.deliver(message, ({ status }) => status === 200))) unanswered += 1;
    progress.callbacks += 1;
    if (progress.callbacks >= total / 3) buying ??= inParallel(scenario.buyers, options.atOnce, buy);
    if (progress.callbacks >= total / 2 && processes[1]) {
      killing ??= kill(processes[1]);
      // Awaited below; until then a failed restart must not end the demo without its clean-up.
      killing.catch(() => undefined);
    }
  };
  try {
    await inParallel(scenario.callbacks, options.atOnce, notify);
    await buying;
    await rewind.done();
    await killing;
  } finally {
    progress.stop();
  }
  return { orders, unanswered, underWayAtKill, rewoundAt: rewind.at };
}

async function killAndRestart(
  victim: SampleProcess,
  underWay: Set<string>,
  progress: Progress,
): Promise<void> {
  const killed = victim.kill();
  for (const reference of victim.underWay.values()) underWay.add(reference);
  await killed;
  progress.note(`${victim.name} killed with SIGKILL, ${underWay.size} requests under way`);
  await sleep(DOWN_FOR_MS);
  await victim.start();
  progress.note(`${victim.name} is back (pid ${victim.pid})`);
}

/** A unit, or the news that none is left. Anything else is asked again, with the same request id. */
const isBuyersAnswer = ({ status, code }: Answer): boolean =>
  status === 201 || code === 'QUOTA_EXCEEDED' || code === 'SOLD_OUT' || code === 'QUOTA_OPERATION';

async function remainingInRedis(url: string): Promise<number | null> {
  const response = await fetch(url);
  return ((await response.json()) as { remaining: number | null }).remaining;
}

main().then(
  (ok) => process.exit(ok ? 0 : 1),
  (error: unknown) => {
    process.stderr.write(
      `The demo could not run: ${error instanceof Error ? error.message : String(error)}\n`,
    );
    process.exit(1);
  },
);
