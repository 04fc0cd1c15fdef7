import { once } from 'node:events';
import { Redis } from 'ioredis';
import { median } from './statistics.mjs';

/** Keys per worker: enough that a cycle does not always meet the key of its predecessor in the cache. */
const KEYS_PER_WORKER = 64;

/**
 * One acquire + release.
 *
 * @param {import('./session.mjs').Session} session
 * @param {string} key
 */
async function cycle(session, key) {
  const release = await session.acquire(key);
  await release();
}

/**
 * Runs cycles, `inFlight` at a time on different keys, for about `forMs`.
 *
 * @param {import('./session.mjs').Session} session
 * @param {string} prefix
 * @param {number} inFlight
 * @param {number} forMs
 * @returns {Promise<number>} cycles per second
 */
export async function cyclesPerSecond(session, prefix, inFlight, forMs) {
  const started = performance.now();
  const end = started + forMs;
  let cycles = 0;
  /** @param {number} worker */
  const work = async (worker) => {
    for (let turn = 0; performance.now() < end; turn += 1) {
      await cycle(session, `${prefix}:${worker}:${turn % KEYS_PER_WORKER}`);
      cycles += 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, (_, worker) => work(worker)));
  return cycles / ((performance.now() - started) / 1_000);
}

/**
 * What one cycle asks of Redis.
 *
 * @typedef {object} Cost
 * @property {number} sent commands that the client sent, seen by MONITOR (commands inside a script not counted)
 * @property {number} executed commands that Redis carried out, those inside scripts included, by `INFO stats`
 */

/**
 * @param {string} url
 * @param {import('./session.mjs').Session} session
 * @param {string} prefix
 * @param {number} inFlight
 * @param {number} rounds cycles of each worker
 * @returns {Promise<Cost>}
 */
export async function commandsPerCycle(url, session, prefix, inFlight, rounds) {
  const observer = new Redis(url);
  /** @param {string} suffix */
  const run = (suffix) =>
    Promise.all(
      Array.from({ length: inFlight }, async (_, worker) => {
        for (let turn = 0; turn < rounds; turn += 1)
          await cycle(session, `${prefix}:${suffix}:${worker}:${turn}`);
      }),
    );
  const cycles = inFlight * rounds;

  const before = await commandsProcessed(observer);
  await run('counted');
  // the INFO that reads `before` is itself in the count of the next one
  const executed = ((await commandsProcessed(observer)) - before - 1) / cycles;

  const monitor = await observer.monitor();
  let sent = 0;
  const marker = `${prefix}:end`;
  const seen = (/** @type {string} */ _time, /** @type {string[]} */ args, /** @type {string} */ source) => {
    if (args[1] === marker) monitor.emit('bench:end');
    else if (source !== 'lua') sent += 1;
  };
  monitor.on('monitor', seen);
  const ended = once(monitor, 'bench:end');
  await run('watched');
  await observer.echo(marker);
  await ended;
  monitor.disconnect();
  observer.disconnect();
  return { sent: sent / cycles, executed };
}

/** @param {Redis} client */
async function commandsProcessed(client) {
  return Number(/total_commands_processed:(\d+)/.exec(await client.info('stats'))?.[1]);
}

/**
 * @param {string} url
 * @returns {Promise<number>} the round trip of a PING in ms, the median of many
 */
export async function roundTripMs(url) {
  const client = new Redis(url);
  /** @type {number[]} */
  const times = [];
  for (let ping = 0; ping < 200; ping += 1) {
    const sent = performance.now();
    await client.ping();
    times.push(performance.now() - sent);
  }
  client.disconnect();
  return median(times);
}
