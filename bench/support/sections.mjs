import { jain } from './statistics.mjs';

/**
 * What the sections of several processes say together. All times are of one clock that the processes share.
 *
 * @typedef {import('./jobs.mjs').SleepingSections} SleepingSections
 */

/**
 * @param {ReadonlyArray<{ started: number, ended: number }>} sections
 * @returns {number} how many began before an earlier one had ended
 */
export function overlaps(sections) {
  const inOrder = [...sections].sort((a, b) => a.started - b.started);
  let latestEnd = -Infinity;
  let found = 0;
  for (const { started, ended } of inOrder) {
    if (started < latestEnd) found += 1;
    latestEnd = Math.max(latestEnd, ended);
  }
  return found;
}

/**
 * @param {readonly SleepingSections[]} processes
 * @param {{ tasks: number, startAt: number, endAt: number, counter: number }} window tasks per process; what is in the counter at the end
 */
export function evaluate(processes, { tasks, startAt, endAt, counter }) {
  const sections = processes.flatMap(({ asked, started, ended, task }, process) =>
    Array.from(started, (at, row) => ({
      asked: asked[row] ?? NaN,
      started: at,
      ended: ended[row] ?? NaN,
      task: process * tasks + (task[row] ?? NaN),
    })),
  );
  const turns = Array.from({ length: processes.length * tasks }, () => 0);
  let held = 0;
  let longestWait = 0;
  let within = 0;
  for (const { asked, started, ended, task } of sections) {
    // whoever had no turn in the window had waited until its end
    longestWait = Math.max(longestWait, Math.min(started, endAt) - Math.max(asked, startAt));
    if (started >= endAt) continue;
    within += 1;
    turns[task] = (turns[task] ?? 0) + 1;
    held += Math.min(ended, endAt) - started;
  }
  const sectionMs = held / within;
  return {
    sections: sections.length,
    perSecond: within / ((endAt - startAt) / 1_000),
    sectionMs,
    ofHoldCeiling: held / (endAt - startAt),
    jain: jain(turns),
    starved: turns.filter((count) => count === 0).length,
    longestWaitOfFairRound: longestWait / (turns.length * sectionMs),
    violations: overlaps(sections) + Math.abs(sections.length - counter),
  };
}
