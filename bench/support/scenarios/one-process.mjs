import { IN_PROCESS_CEILING, named, ours, OURS_WITH_LOCK, waitContenders } from '../contenders.mjs';
import { freshKey, openField, samplesBy } from '../field.mjs';
import { jain, pairwiseRatios, sum } from '../statistics.mjs';
import { figure, row, say, withInterval } from '../table.mjs';

const TASKS = 64;

/**
 * 64 tasks of one process on one key, with an empty section.
 *
 * @param {import('../../contention.mjs').Run} run
 */
export async function oneProcess({ url, observer, rounds, seconds, peerSeconds, wanted }) {
  const field = openField(url, waitContenders.filter(wanted), 1);
  const samples = samplesBy(['rate', 'jain', 'commands', 'violations']);
  /** @type {Map<import('../field.mjs').Contender, ReadonlySet<string>>} */
  const inside = new Map();

  for (const contender of field.contenders) {
    const [worker] = await field.workers(contender);
    /** @param {number} forMs */
    const sections = (forMs) =>
      worker?.run('emptySections', { key: freshKey('warm'), tasks: TASKS, forMs, byRun: contender.byRun });
    await sections(500);
    inside.set(contender, await observer.insideScripts(async () => sections(300)));
  }

  for (let round = 0; round < rounds; round += 1) {
    for (const contender of field.order(round)) {
      const [worker] = await field.workers(contender);
      const forMs = (contender.pollMs ? peerSeconds : seconds) * 1_000;
      const options = { key: freshKey('one-process'), tasks: TASKS, forMs, byRun: contender.byRun };
      const { sent, result } = await observer.count(
        inside.get(contender) ?? new Set(),
        /** @returns {Promise<import('../jobs.mjs').EmptySections>} */
        async () => worker?.run('emptySections', options),
      );
      const total = sum(result.counts);
      samples.add(contender, {
        rate: total / (result.elapsedMs / 1_000),
        jain: jain(result.counts),
        commands: sent / total,
        violations: result.violations,
      });
    }
  }
  await field.close();

  const ceiling = samples.of(named(field.contenders, IN_PROCESS_CEILING)).rate;
  say(`\none process, ${TASKS} tasks on one key, empty section`);
  say(row('', 'sections/s', 'of async-mutex', 'Jain', 'commands/section', 'violations'));
  for (const contender of field.contenders) {
    const { rate, jain: fairness, commands, violations } = samples.of(contender);
    say(
      row(
        contender.name,
        withInterval(rate, 0),
        withInterval(pairwiseRatios(rate, ceiling), 4),
        withInterval(fairness, 3),
        withInterval(commands, 3),
        String(sum(violations)),
      ),
    );
  }

  const own = samples.of(ours);
  return {
    figures: {
      ofInProcessCeiling: figure(pairwiseRatios(own.rate, ceiling)),
      jain: figure(own.jain, 4),
      commandsPerSection: figure(own.commands, 4),
    },
    violations: sum(own.violations) + sum(samples.of(named(field.contenders, OURS_WITH_LOCK)).violations),
  };
}
