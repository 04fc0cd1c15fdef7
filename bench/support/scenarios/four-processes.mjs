import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { now } from '../clock.mjs';
import { IN_PROCESS_CEILING, ours, waitContenders } from '../contenders.mjs';
import { createCounter, openCounter } from '../counter-file.mjs';
import { freshKey, openField, samplesBy } from '../field.mjs';
import { sum } from '../statistics.mjs';
import { evaluate } from '../sections.mjs';
import { figure, row, say, withInterval } from '../table.mjs';

const PROCESSES = 4;
const TASKS = 16;
/** Slept, not burnt: four busy processes on two cores would measure the scheduler. */
const SECTION_MS = 1;
/** Between the order and the start, so that all processes begin together. */
const HEAD_START_MS = 50;

/**
 * 4 processes with 16 tasks each on one key, with a section that sleeps about 1 ms.
 *
 * @param {import('../../contention.mjs').Run} run
 */
export async function fourProcesses({ url, observer, rounds, seconds, peerSeconds, wanted }) {
  const field = openField(
    url,
    waitContenders.filter(
      (contender) => wanted(contender) && !contender.byRun && contender.name !== IN_PROCESS_CEILING,
    ),
    PROCESSES,
  );
  const samples = samplesBy([
    'perSecond',
    'sectionMs',
    'ofHoldCeiling',
    'jain',
    'commands',
    'starved',
    'longestWaitOfFairRound',
    'violations',
  ]);
  const folder = mkdtempSync(join(tmpdir(), 'bench-counter-'));
  const counterPath = join(folder, 'counter');

  /** @param {import('../field.mjs').Contender} contender @param {number} forMs */
  async function slice(contender, forMs) {
    const workers = await field.workers(contender);
    const key = freshKey('four-processes');
    await workers[0]?.run('prepare', { key });
    createCounter(counterPath);
    const startAt = now() + HEAD_START_MS;
    const endAt = startAt + forMs;
    const options = { key, tasks: TASKS, startAt, endAt, sectionMs: SECTION_MS, counterPath };
    /** @type {import('../jobs.mjs').SleepingSections[]} */
    const results = await Promise.all(workers.map((worker) => worker.run('sleepingSections', options)));
    const file = openCounter(counterPath);
    const counter = file.read();
    file.close();
    return evaluate(results, { tasks: TASKS, startAt, endAt, counter });
  }

  /** @type {Map<import('../field.mjs').Contender, ReadonlySet<string>>} */
  const inside = new Map();
  try {
    for (const contender of field.contenders) {
      await slice(contender, 300);
      inside.set(contender, await observer.insideScripts(() => slice(contender, 300)));
    }
    for (let round = 0; round < rounds; round += 1) {
      for (const contender of field.order(round)) {
        const forMs = (contender.pollMs ? peerSeconds : seconds) * 1_000;
        const { sent, result } = await observer.count(inside.get(contender) ?? new Set(), () =>
          slice(contender, forMs),
        );
        samples.add(contender, { ...result, commands: sent / result.sections });
      }
    }
  } finally {
    await field.close();
    rmSync(folder, { recursive: true });
  }

  say(`\n${PROCESSES} processes × ${TASKS} tasks on one key, a section sleeps ${SECTION_MS} ms`);
  say(
    row(
      '',
      'of hold ceiling',
      'sections/s',
      'Jain',
      'commands/section',
      'longest wait, rounds',
      'starved, median',
      'violations',
    ),
  );
  for (const contender of field.contenders) {
    const of = samples.of(contender);
    say(
      row(
        contender.name,
        withInterval(of.ofHoldCeiling, 3),
        withInterval(of.perSecond, 0),
        withInterval(of.jain, 3),
        withInterval(of.commands, 3),
        withInterval(of.longestWaitOfFairRound, 1),
        figure(of.starved, 1).toString(),
        String(sum(of.violations)),
      ),
    );
  }

  const own = samples.of(ours);
  say(`a section of this module took ${withInterval(own.sectionMs, 3)} ms`);
  return {
    figures: {
      ofHoldCeiling: figure(own.ofHoldCeiling),
      jain: figure(own.jain, 4),
      commandsPerSection: figure(own.commands),
      // one starved task in any round is one too many
      starved: Math.max(...own.starved),
      longestWaitOfFairRound: figure(own.longestWaitOfFairRound, 2),
    },
    violations: sum(own.violations),
  };
}
