import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HAND_OVER_FLOOR, IN_PROCESS_CEILING, named, ours, waitContenders } from './support/contenders.mjs';
import { createCounter, openCounter } from './support/counter-file.mjs';
import { freshKey, openField, samplesBy } from './support/field.mjs';
import { describeMachine } from './support/machine.mjs';
import { readOptions } from './support/options.mjs';
import { startRedis } from './support/redis-server.mjs';
import { overlaps } from './support/sections.mjs';
import { median, pairwiseRatios, quantile, sum } from './support/statistics.mjs';
import { figure, row, say, withInterval } from './support/table.mjs';

/** Two processes hand one lock to and fro: how long after the release does the one that waits have it? */

/** Until the waiter waits, and its first tries are through. */
const SETTLED_MS = 5;
/** Over how much the moment of the release is spread, for those that do not poll. */
const SPREAD_MS = 10;

const { rounds, seconds, peers } = readOptions(
  { rounds: 5, seconds: 3, peers: 'all' },
  { peers: ['all', 'tuned', 'none'] },
);
const server = await startRedis();
const folder = mkdtempSync(join(tmpdir(), 'bench-counter-'));

const contenders = waitContenders.filter(
  ({ name, byRun, kind, tuned }) =>
    name !== IN_PROCESS_CEILING &&
    !byRun &&
    (kind !== 'peer' || (peers !== 'none' && (tuned === true || peers === 'all'))),
);
const field = openField(server.url, contenders, 2);
const samples = samplesBy(['p50', 'violations']);
/** @type {Map<string, number[]>} every hand-over of all rounds, in ms, by contender */
const handOvers = new Map(contenders.map(({ name }) => [name, []]));

/**
 * @param {import('./support/contenders.mjs').Contender} contender
 * @param {number} forMs
 */
async function slice(contender, forMs) {
  const sides = await field.workers(contender);
  const [first, second] = sides;
  if (!first || !second) throw new Error('A hand-over needs two processes.');
  const key = freshKey('handoff');
  const counterPath = join(folder, key);
  createCounter(counterPath);
  await Promise.all(sides.map((side) => side.run('openSide', { counterPath })));
  await first.run('prepare', { key });

  /** @type {Array<{ started: number, ended: number }>} */
  const sections = [];
  /** @type {number[]} */
  const latencies = [];
  const end = performance.now() + forMs;
  let [holder, waiter] = [first, second];
  let started = await holder.run('take', { key });
  while (latencies.length === 0 || performance.now() < end) {
    const taken = waiter.run('take', { key });
    // a poller's next try must not lie at a fixed distance from the release
    await sleep(SETTLED_MS + Math.random() * Math.max(contender.pollMs ?? 0, SPREAD_MS));
    const ended = await holder.run('letGo');
    sections.push({ started, ended });
    started = await taken;
    latencies.push(started - ended);
    [holder, waiter] = [waiter, holder];
  }
  sections.push({ started, ended: await holder.run('letGo') });

  const counter = openCounter(counterPath);
  const violations = overlaps(sections) + Math.abs(sections.length - counter.read());
  counter.close();
  return { latencies, violations };
}

try {
  say(`${describeMachine(server)}; ${rounds} rounds of ${seconds} s`);
  for (const contender of contenders) await slice(contender, 500);
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of field.order(round)) {
      const { latencies, violations } = await slice(contender, seconds * 1_000);
      samples.add(contender, { p50: median(latencies), violations });
      handOvers.get(contender.name)?.push(...latencies);
    }
  }
  await field.close();

  const blpop = samples.of(named(contenders, HAND_OVER_FLOOR)).p50;
  const p99 = (/** @type {string} */ name) => quantile(handOvers.get(name) ?? [], 0.99);
  say('\nfrom the release in one process to the start in the other');
  say(row('', 'p50, ms', 'p50 of BLPOP', 'p99, ms', 'hand-overs', 'violations'));
  for (const contender of contenders) {
    const { p50, violations } = samples.of(contender);
    say(
      row(
        contender.name,
        withInterval(p50, 3),
        withInterval(pairwiseRatios(p50, blpop), 2),
        p99(contender.name).toFixed(2),
        String(handOvers.get(contender.name)?.length),
        String(sum(violations)),
      ),
    );
  }

  const { p50, violations } = samples.of(ours);
  say('');
  say(
    JSON.stringify({
      bench: 'handoff',
      p50OfBlpop: figure(pairwiseRatios(p50, blpop)),
      p99Ms: Number(p99(ours.name).toFixed(2)),
    }),
  );
  if (violations.some((count) => count > 0)) process.exitCode = 1;
} finally {
  await field.close();
  rmSync(folder, { recursive: true });
  await server.stop();
}
