import { startPostgres } from './support/postgres-server.mjs';
import { OURS, OURS_IDS, quotaContenders, SCRIPT, SCRIPT_IDS } from './support/quota-contenders.mjs';
import { describeMachine } from './support/machine.mjs';
import { readOptions } from './support/options.mjs';
import { startRedis } from './support/redis-server.mjs';
import { sentCommandsObserver } from './support/sent-commands.mjs';
import { median, pairwiseRatios, quantile, sum } from './support/statistics.mjs';
import { figure, row, say, withInterval } from './support/table.mjs';
import { startWorker } from './support/worker-process.mjs';

/**
 * One hot quota, from which everybody takes one unit at a time.
 *
 * @typedef {import('./support/quota-contenders.mjs').QuotaContender} QuotaContender
 * @typedef {import('./support/worker-process.mjs').WorkerProcess} WorkerProcess
 * @typedef {{ processes: number, callers: number }} Load
 * @typedef {{ perSecond: number[], p50: number[], p99: number[], sent: number[] }} Samples
 */

const WORKER = new URL('support/quota-worker.mjs', import.meta.url);
const AMOUNT = 1_000_000_000_000;
const POSTGRES_STATEMENTS = 5;
/** At one caller it takes this long until the code of every contender is compiled. */
const WARM_UP_MS = 2_000;

/** @type {readonly Load[]} */
const LOADS = [
  { processes: 1, callers: 1 },
  { processes: 1, callers: 64 },
  { processes: 1, callers: 512 },
  { processes: 4, callers: 128 },
];

const { rounds, seconds } = readOptions({ rounds: 5, seconds: 1 });
const redis = await startRedis();
const postgres = await startPostgres();
const observer = sentCommandsObserver(redis.url);
const contenders = quotaContenders.filter(({ store }) => store === 'redis' || postgres);
let keys = 0;
let wrong = 0;
/** @type {Set<WorkerProcess>} */
const started = new Set();

/** @param {QuotaContender} contender */
async function start(contender) {
  const worker = await startWorker(contender.name, urlOf(contender), WORKER);
  started.add(worker);
  return worker;
}

async function stopAll() {
  await Promise.all([...started].map((worker) => worker.stop()));
  started.clear();
}

/** @param {QuotaContender} contender */
const urlOf = ({ store }) => (store === 'redis' || !postgres ? redis.url : postgres.url);

/**
 * @param {QuotaContender} contender
 * @param {readonly WorkerProcess[]} workers
 * @param {Load} load
 * @param {number} forMs
 * @param {ReadonlySet<string>} inside commands of scripts, which are not counted
 */
async function slice(contender, workers, { callers }, forMs, inside = new Set()) {
  const key = `${contender.prefix ?? 'bench:quota'}:${(keys += 1)}`;
  const [first] = workers;
  await first?.run('prepare', { key, amount: AMOUNT });
  const take = () => Promise.all(workers.map((worker) => worker.run('take', { key, callers, forMs })));
  /** @type {{ sent: number, result: Array<{ taken: number, elapsedMs: number, latencies: Float64Array }> }} */
  const { sent, result: results } = await observer.count(inside, take);
  const taken = sum(results.map((result) => result.taken));
  if ((await first?.run('remaining', { key })) !== AMOUNT - taken) wrong += 1;
  const latencies = results.flatMap((result) => [...result.latencies]);
  return {
    sent: contender.store === 'redis' ? sent / taken : POSTGRES_STATEMENTS,
    perSecond: sum(results.map((result) => result.taken / (result.elapsedMs / 1_000))),
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
  };
}

/** @param {Load} load @returns {Promise<Map<string, Samples>>} */
async function measure(load) {
  const field = contenders.filter(({ fourProcesses }) => load.processes === 1 || fourProcesses);
  /** @type {Map<QuotaContender, WorkerProcess[]>} */
  const running = new Map();
  /** @type {Map<string, Samples>} */
  const samples = new Map();
  /** @type {Map<QuotaContender, ReadonlySet<string>>} */
  const inside = new Map();
  for (const contender of field) {
    const workers = await Promise.all(Array.from({ length: load.processes }, () => start(contender)));
    running.set(contender, workers);
    samples.set(contender.name, { perSecond: [], p50: [], p99: [], sent: [] });
    await slice(contender, workers, load, WARM_UP_MS);
    const watched = `${contender.prefix ?? 'bench:quota'}:watched`;
    await workers[0]?.run('prepare', { key: watched, amount: AMOUNT });
    inside.set(
      contender,
      await observer.insideScripts(async () => {
        await workers[0]?.run('take', { key: watched, callers: 8, forMs: 50 });
      }),
    );
  }
  for (let round = 0; round < rounds; round += 1) {
    const turn = round % field.length;
    for (const contender of [...field.slice(turn), ...field.slice(0, turn)]) {
      const workers = running.get(contender) ?? [];
      const result = await slice(contender, workers, load, seconds * 1_000, inside.get(contender));
      const of = samples.get(contender.name);
      of?.perSecond.push(result.perSecond);
      of?.p50.push(result.p50);
      of?.p99.push(result.p99);
      of?.sent.push(result.sent);
    }
  }
  await stopAll();
  return samples;
}

/** @param {Map<string, Samples>} all @param {string} name @returns {Samples} */
const of = (all, name) => all.get(name) ?? { perSecond: [], p50: [], p99: [], sent: [] };
/** @param {Map<string, Samples>} all @param {string} ours @param {string} base */
const ratios = (all, ours, base) => pairwiseRatios(of(all, ours).perSecond, of(all, base).perSecond);

try {
  say(
    `${describeMachine(redis)}; postgres ${postgres?.version ?? 'not found'}; ${rounds} rounds of ${seconds} s`,
  );
  /** @type {Array<Map<string, Samples>>} */
  const measured = [];
  for (const load of LOADS) {
    const all = await measure(load);
    measured.push(all);
    const processes = load.processes === 1 ? '1 process' : `${load.processes} processes`;
    say(`\n${processes} × ${load.callers} callers`);
    say(row('', 'grants/s', `of ${SCRIPT}`, 'p50, ms', 'p99, ms', 'commands per grant'));
    for (const [name, { perSecond, p50, p99, sent }] of all) {
      say(
        row(
          name,
          withInterval(perSecond, 0),
          withInterval(ratios(all, name, SCRIPT), 2),
          median(p50).toFixed(3),
          median(p99).toFixed(3),
          median(sent).toFixed(4),
        ),
      );
    }
  }
  const [one, , many, processes] = measured;
  if (!one || !many || !processes) throw new Error('Not everything was measured.');
  say('');
  say(
    JSON.stringify({
      bench: 'quota',
      c1OfScript: figure(ratios(one, OURS, SCRIPT)),
      c512OfScript: figure(ratios(many, OURS, SCRIPT), 2),
      c512IdsOfScriptIds: figure(ratios(many, OURS_IDS, SCRIPT_IDS), 2),
      p4OfScript: figure(ratios(processes, OURS, SCRIPT), 2),
      total: wrong === 0 ? 'right' : 'wrong',
    }),
  );
  if (wrong > 0) process.exitCode = 1;
} finally {
  await stopAll();
  observer.close();
  await redis.stop();
  await postgres?.stop();
}
