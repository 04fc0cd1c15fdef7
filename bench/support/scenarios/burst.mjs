import { setTimeout as sleep } from 'node:timers/promises';
import { ours, waitContenders } from '../contenders.mjs';
import { freshKey, openField, samplesBy } from '../field.mjs';
import { median, pairwiseRatios, sum } from '../statistics.mjs';
import { figure, row, say, withInterval } from '../table.mjs';

const CALLERS = 64;
/** Bursts of one contender in one round, of which the median counts; fewer when they take long. */
const BURSTS = 5;
const ENOUGH_MS = 1_000;
/** A burst that takes longer counts as this long, and its process is replaced. */
const LIMIT_MS = 3_000;

/**
 * 64 callers of one process ask for one free key at once; the time until each had it.
 *
 * @param {import('../../contention.mjs').Run} run
 */
export async function burst({ url, rounds, wanted, wantedDefaults }) {
  const field = openField(
    url,
    waitContenders.filter(
      (contender) => !contender.byRun && (wanted(contender) || wantedDefaults(contender)),
    ),
    1,
  );
  const samples = samplesBy(['ms', 'violations']);

  /** @param {import('../field.mjs').Contender} contender */
  async function once(contender) {
    const [worker] = await field.workers(contender);
    const given = new AbortController();
    const done = worker?.run('burst', { key: freshKey('burst'), callers: CALLERS });
    const late = sleep(LIMIT_MS, undefined, { signal: given.signal }).catch(() => undefined);
    /** @type {{ elapsedMs: number, violations: number } | undefined} */
    const result = await Promise.race([done, late]);
    given.abort();
    if (result) return result;
    done?.catch(() => undefined);
    await field.replace(contender);
    return { elapsedMs: LIMIT_MS, violations: 0 };
  }

  for (const contender of field.contenders) {
    // a fast one compiles its code; a slow one is asked only once
    const began = performance.now();
    for (let bursts = 0; bursts < BURSTS * 4 && performance.now() - began < ENOUGH_MS / 2; bursts += 1) {
      await once(contender);
    }
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of field.order(round)) {
      await field.workers(contender);
      /** @type {number[]} */
      const times = [];
      let violations = 0;
      const began = performance.now();
      while (times.length < BURSTS && performance.now() - began < ENOUGH_MS) {
        const result = await once(contender);
        times.push(result.elapsedMs);
        violations += result.violations;
      }
      samples.add(contender, { ms: median(times), violations });
    }
  }
  await field.close();

  say(`\nburst: ${CALLERS} callers of one process at once (${LIMIT_MS} ms: that long, or longer)`);
  say(row('', 'ms until all had it', 'violations'));
  for (const contender of field.contenders) {
    const { ms, violations } = samples.of(contender);
    say(row(contender.name, withInterval(ms, 2), String(sum(violations))));
  }

  const peers = field.contenders.filter(({ kind }) => kind === 'peer');
  const time = (/** @type {import('../field.mjs').Contender} */ contender) =>
    median(samples.of(contender).ms);
  const [best] = [...peers].sort((a, b) => time(a) - time(b));
  say(`best peer: ${best?.name ?? 'none ran'}`);
  const own = samples.of(ours);
  return {
    figures: { ofBestPeer: best ? figure(pairwiseRatios(own.ms, samples.of(best).ms), 4) : null },
    violations: sum(own.violations),
  };
}
