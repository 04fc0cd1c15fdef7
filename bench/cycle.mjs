import { cycleContenders } from './support/contenders.mjs';
import { startDelayProxy } from './support/delay-proxy.mjs';
import { describeMachine } from './support/machine.mjs';
import { commandsPerCycle, cyclesPerSecond, roundTripMs } from './support/measure.mjs';
import { readOptions } from './support/options.mjs';
import { startRedis } from './support/redis-server.mjs';
import { median, pairwiseRatios } from './support/statistics.mjs';
import { figure, row, say, withInterval } from './support/table.mjs';

/** One acquire + release of a free lock: this module beside the raw client and the libraries in use today. */

/** What the proxy adds, each way. */
const NETWORK_MS = 1;

const { rounds, 'slice-ms': sliceMs } = readOptions({ rounds: 21, 'slice-ms': 200 });
const server = await startRedis();
const proxy = await startDelayProxy(server.port, NETWORK_MS);

try {
  const lanes = [
    { name: '1 in flight', url: server.url, inFlight: 1 },
    { name: '64 in flight', url: server.url, inFlight: 64 },
    { name: `1 in flight, ${NETWORK_MS} ms of network each way`, url: proxy.url, inFlight: 1 },
  ];
  const [alone, many, far] =
    /** @type {[typeof lanes[number], typeof lanes[number], typeof lanes[number]]} */ (lanes);

  const runners = await Promise.all(
    cycleContenders.map(async ({ name, kind, open }) => ({
      name,
      kind,
      near: await open(server.url),
      far: await open(proxy.url),
      /** @type {Map<typeof alone, number[]>} cycles per second of each round */
      rates: new Map(lanes.map((lane) => [lane, []])),
    })),
  );
  /** @typedef {typeof runners[number]} Runner */
  const rates = (/** @type {Runner} */ runner, /** @type {typeof alone} */ lane) =>
    runner.rates.get(lane) ?? [];
  const sessionOf = (/** @type {Runner} */ runner, /** @type {typeof alone} */ lane) =>
    lane === far ? runner.far : runner.near;

  say(`${describeMachine(server)}; ${rounds} rounds of ${sliceMs} ms each`);
  say(
    `a PING takes ${(await roundTripMs(server.url)).toFixed(2)} ms, ${(await roundTripMs(proxy.url)).toFixed(2)} ms through the proxy`,
  );

  // everybody compiles, connects and loads its scripts before anything counts
  for (const runner of runners) {
    for (const lane of lanes) {
      await cyclesPerSecond(sessionOf(runner, lane), `warm:${runner.name}`, lane.inFlight, sliceMs * 2);
    }
  }

  for (let round = 0; round < rounds; round += 1) {
    const turn = round % runners.length;
    // the order rotates: nobody always runs behind the same neighbour
    const order = [...runners.slice(turn), ...runners.slice(0, turn)];
    for (const lane of lanes) {
      for (const runner of order) {
        const rate = await cyclesPerSecond(
          sessionOf(runner, lane),
          `bench:${runner.name}`,
          lane.inFlight,
          sliceMs,
        );
        rates(runner, lane).push(rate);
      }
    }
  }

  const raw = runners[0];
  const ours = runners.find(({ kind }) => kind === 'ours');
  if (!raw || !ours) throw new Error('There is nothing to compare.');
  for (const lane of lanes) {
    say(`\n${lane.name}`);
    say(row('', 'cycles/s', 'of raw'));
    for (const runner of runners) {
      const samples = rates(runner, lane);
      say(
        row(
          runner.name,
          withInterval(samples, 0),
          withInterval(pairwiseRatios(samples, rates(raw, lane)), 3),
        ),
      );
    }
  }

  say('\nper cycle at 1 in flight');
  say(row('', 'sent', 'carried out'));
  let oursSent = NaN;
  for (const runner of runners) {
    const { sent, executed } = await commandsPerCycle(server.url, runner.near, `cost:${runner.name}`, 1, 500);
    if (runner === ours) oursSent = sent;
    say(row(runner.name, sent.toFixed(2), executed.toFixed(2)));
  }

  const peers = runners.filter(({ kind }) => kind === 'peer');
  const bestPeer = peers.reduce((best, peer) =>
    median(rates(peer, many)) > median(rates(best, many)) ? peer : best,
  );
  say(`\nbest peer at 64 in flight: ${bestPeer.name}`);

  await Promise.all(runners.flatMap(({ near, far }) => [near.close(), far.close()]));

  const ratio = (/** @type {Runner} */ other, /** @type {typeof alone} */ lane) =>
    figure(pairwiseRatios(rates(ours, lane), rates(other, lane)));
  say(
    JSON.stringify({
      bench: 'cycle',
      c1OfRaw: ratio(raw, alone),
      c64OfRaw: ratio(raw, many),
      c64OfBestPeer: ratio(bestPeer, many),
      commandsPerCycle: Number(oursSent.toFixed(2)),
      c1OfRawOver1ms: ratio(raw, far),
    }),
  );
} finally {
  proxy.stop();
  await server.stop();
}
