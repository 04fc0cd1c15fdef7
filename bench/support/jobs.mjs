import { setTimeout as sleep } from 'node:timers/promises';
import { now } from './clock.mjs';
import { openCounter } from './counter-file.mjs';

/**
 * What a worker process does when it is told. Every job checks mutual exclusion in its sections.
 *
 * @typedef {import('./session.mjs').Session} Session
 *
 * @typedef {object} EmptySections
 * @property {number[]} counts sections of each task
 * @property {number} elapsedMs
 * @property {number} violations
 *
 * @typedef {object} SleepingSections one row per section, over all tasks
 * @property {Float64Array} asked
 * @property {Float64Array} started
 * @property {Float64Array} ended
 * @property {Float64Array} task
 */

/**
 * Tasks that take one key again and again, with nothing in the section but the check itself. A second holder in
 * this process shows in two ways: it is inside at the same time, and one of two raises of the counter is lost,
 * because reading and writing lie on two sides of an `await`.
 *
 * @param {Session} session
 * @param {{ key: string, tasks: number, forMs: number, byRun?: boolean }} options
 * @returns {Promise<EmptySections>}
 */
export async function emptySections(session, { key, tasks, forMs, byRun }) {
  await session.prepare?.(key);
  const counts = Array.from({ length: tasks }, () => 0);
  let inside = 0;
  let overlaps = 0;
  let counter = 0;
  const section = async () => {
    if ((inside += 1) > 1) overlaps += 1;
    const seen = counter;
    await undefined;
    counter = seen + 1;
    inside -= 1;
  };
  const { run } = session;
  const once =
    byRun && run
      ? () => run(key, section)
      : async () => {
          const release = await session.acquire(key);
          await section();
          await release();
        };

  const started = performance.now();
  const end = started + forMs;
  await Promise.all(
    counts.map(async (_, task) => {
      let turns = 0;
      while (performance.now() < end) {
        await once();
        turns += 1;
      }
      counts[task] = turns;
    }),
  );
  const elapsedMs = performance.now() - started;
  const sections = counts.reduce((sum, count) => sum + count, 0);
  return { counts, elapsedMs, violations: overlaps + (sections - counter) };
}

/**
 * All callers ask at once; the time until each had its turn.
 *
 * @param {Session} session
 * @param {{ key: string, callers: number }} options
 * @returns {Promise<{ elapsedMs: number, violations: number }>}
 */
export async function burst(session, { key, callers }) {
  await session.prepare?.(key);
  let inside = 0;
  let overlaps = 0;
  let counter = 0;
  const started = performance.now();
  let lastStarted = started;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      const release = await session.acquire(key);
      lastStarted = performance.now();
      if ((inside += 1) > 1) overlaps += 1;
      const seen = counter;
      await undefined;
      counter = seen + 1;
      inside -= 1;
      await release();
    }),
  );
  return { elapsedMs: lastStarted - started, violations: overlaps + (callers - counter) };
}

/**
 * Tasks that take one key in turns with other processes, and sleep in the section. Overlaps are found later, from
 * the times of all processes; the counter is a file.
 *
 * @param {Session} session
 * @param {{ key: string, tasks: number, startAt: number, endAt: number, sectionMs: number, counterPath: string }} options
 * @returns {Promise<SleepingSections>}
 */
export async function sleepingSections(session, { key, tasks, startAt, endAt, sectionMs, counterPath }) {
  const counter = openCounter(counterPath);
  /** @type {number[]} */
  const asked = [];
  /** @type {number[]} */
  const started = [];
  /** @type {number[]} */
  const ended = [];
  /** @type {number[]} */
  const taskOf = [];
  await sleep(Math.max(0, startAt - now()));
  await Promise.all(
    Array.from({ length: tasks }, async (_, task) => {
      for (let askedAt = now(); askedAt < endAt; askedAt = now()) {
        const release = await session.acquire(key);
        const startedAt = now();
        const seen = counter.read();
        await sleep(sectionMs);
        counter.write(seen + 1);
        asked.push(askedAt);
        started.push(startedAt);
        taskOf.push(task);
        ended.push(now());
        await release();
      }
    }),
  );
  counter.close();
  return {
    asked: Float64Array.from(asked),
    started: Float64Array.from(started),
    ended: Float64Array.from(ended),
    task: Float64Array.from(taskOf),
  };
}

/**
 * Takes every key and keeps it, until the process ends.
 *
 * @param {Session} session
 * @param {{ keys: string[] }} options
 */
export async function hold(session, { keys }) {
  await Promise.all(keys.map((key) => session.acquire(key)));
}

/**
 * One caller per name begins to wait; nobody is ever granted.
 *
 * @param {Session} session
 * @param {{ keys: string[] }} options
 */
export function wait(session, { keys }) {
  const granted = (/** @type {string} */ key) => {
    throw new Error(`${key} was granted though another process holds it.`);
  };
  for (const key of keys) {
    session.acquire(key).then(
      () => granted(key),
      // the process is ended while it waits
      () => undefined,
    );
  }
}

/**
 * One side of a hand-over between two processes: takes the key, then keeps it until it is told to let go.
 *
 * @param {Session} session
 * @param {{ counterPath: string }} options
 */
export function handOverSide(session, { counterPath }) {
  const counter = openCounter(counterPath);
  /** @type {import('./session.mjs').Release | undefined} */
  let release;
  let seen = 0;
  return {
    /** @param {string} key @returns {Promise<number>} when it was granted */
    async take(key) {
      release = await session.acquire(key);
      const at = now();
      seen = counter.read();
      return at;
    },
    /** @returns {Promise<number>} when it was let go */
    async letGo() {
      counter.write(seen + 1);
      const at = now();
      await release?.();
      return at;
    },
  };
}
