import { availableParallelism, cpus } from 'node:os';
import { contenders } from './support/contenders.mjs';
import { commandsPerCycle, cyclesPerSecond } from './support/measure.mjs';
import { readOptions } from './support/options.mjs';
import { startRedis } from './support/redis-server.mjs';
import { median, medianInterval, pairwiseRatios } from './support/statistics.mjs';

/** One acquire + release of a free lock: this module beside the raw client and the libraries in use today. */

const IN_FLIGHT = [1, 64];

const { rounds, sliceMs } = readOptions();
const server = await startRedis();

/** @param {string} text */
const say = (text) => process.stdout.write(`${text}\n`);

try {
  const sessions = await Promise.all(
    contenders.map(async (contender) => ({ ...contender, session: await contender.open(server.url) })),
  );

  say(
    `redis ${server.version}, node ${process.version}, ${availableParallelism()} × ${cpus()[0]?.model ?? 'cpu'}; ` +
      `${rounds} rounds of ${sliceMs} ms each`,
  );

  // everybody compiles, connects and loads its scripts before anything counts
  for (const { name, session } of sessions) {
    for (const inFlight of IN_FLIGHT) await cyclesPerSecond(session, `warm:${name}`, inFlight, sliceMs * 2);
  }

  /** @type {Map<string, number[]>} cycles per second of each round, by contender and number in flight */
  const rates = new Map();
  const slot = (/** @type {string} */ name, /** @type {number} */ inFlight) => `${name}@${inFlight}`;
  for (let round = 0; round < rounds; round += 1) {
    const turn = round % sessions.length;
    // the order rotates: nobody always runs behind the same neighbour
    const order = [...sessions.slice(turn), ...sessions.slice(0, turn)];
    for (const inFlight of IN_FLIGHT) {
      for (const { name, session } of order) {
        const rate = await cyclesPerSecond(session, `bench:${name}`, inFlight, sliceMs);
        rates.set(slot(name, inFlight), [...(rates.get(slot(name, inFlight)) ?? []), rate]);
      }
    }
  }
  const ratesOf = (/** @type {string} */ name, /** @type {number} */ inFlight) =>
    rates.get(slot(name, inFlight)) ?? [];

  const base = sessions[0]?.name ?? '';
  const ours = sessions.find(({ kind }) => kind === 'ours')?.name ?? '';
  /** @type {Map<string, import('./support/measure.mjs').Cost>} */
  const costs = new Map();
  for (const { name, session } of sessions) {
    costs.set(name, await commandsPerCycle(server.url, session, `cost:${name}`, 1, 500));
  }

  for (const inFlight of IN_FLIGHT) {
    say(`\n${inFlight} in flight`);
    say(row('', 'cycles/s', '95 % interval', 'of raw', '95 % interval'));
    for (const { name } of sessions) {
      const samples = ratesOf(name, inFlight);
      const ratios = pairwiseRatios(samples, ratesOf(base, inFlight));
      say(
        row(
          name,
          median(samples).toFixed(0),
          interval(medianInterval(samples), 0),
          median(ratios).toFixed(3),
          interval(medianInterval(ratios), 3),
        ),
      );
    }
  }

  say('\nper cycle at 1 in flight');
  say(row('', 'sent', 'carried out'));
  for (const { name } of sessions) {
    const cost = costs.get(name);
    say(row(name, cost?.sent.toFixed(2) ?? '', cost?.executed.toFixed(2) ?? ''));
  }

  const peers = sessions.filter(({ kind }) => kind === 'peer').map(({ name }) => name);
  const bestPeer = peers.reduce((best, name) =>
    median(ratesOf(name, 64)) > median(ratesOf(best, 64)) ? name : best,
  );
  say(`\nbest peer at 64 in flight: ${bestPeer}`);

  await Promise.all(sessions.map(({ session }) => session.close()));

  const ratio = (/** @type {string} */ other, /** @type {number} */ inFlight) =>
    Number(median(pairwiseRatios(ratesOf(ours, inFlight), ratesOf(other, inFlight))).toFixed(3));
  say(
    JSON.stringify({
      bench: 'cycle',
      c1OfRaw: ratio(base, 1),
      c64OfRaw: ratio(base, 64),
      c64OfBestPeer: ratio(bestPeer, 64),
      commandsPerCycle: Number((costs.get(ours)?.sent ?? NaN).toFixed(2)),
    }),
  );
} finally {
  await server.stop();
}

/** @param {readonly [number, number]} bounds @param {number} digits */
function interval([low, high], digits) {
  return `${low.toFixed(digits)} - ${high.toFixed(digits)}`;
}

/** @param {string} name @param {string[]} cells */
function row(name, ...cells) {
  return name.padEnd(32) + cells.map((cell) => cell.padStart(18)).join('');
}
