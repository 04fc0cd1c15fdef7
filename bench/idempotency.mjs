import { describeMachine } from './support/machine.mjs';
import { openIdempotencyField } from './support/idempotency/field.mjs';
import { readOptions } from './support/options.mjs';
import { startRedis } from './support/redis-server.mjs';
import { median, pairwiseRatios } from './support/statistics.mjs';
import { figure, row, say, withInterval } from './support/table.mjs';

/** What idempotency costs a small JSON route, beside the same route without it. */

const { rounds, seconds, connections } = readOptions({ rounds: 15, seconds: 1.5, connections: 16 });
const server = await startRedis();

try {
  const field = await openIdempotencyField(server.url, connections);
  try {
    say(`${describeMachine(server)}; ${rounds} rounds of ${seconds} s, ${connections} connections`);
    await field.warmUp(seconds * 2);
    for (let round = 0; round < rounds; round += 1) {
      for (const contender of field.order(round)) await field.measure(contender, seconds);
    }

    say('');
    say(row('', 'requests/s', 'of plain', 'commands', 'server CPU, us', 'Redis CPU, us', 'p99, ms'));
    for (const contender of field.contenders) {
      const { perSecond, cpu, redisCpu, p99 } = contender.samples;
      say(
        row(
          contender.name,
          withInterval(perSecond, 0),
          withInterval(pairwiseRatios(perSecond, field.plainOf(contender).samples.perSecond), 3),
          contender.commands.toFixed(2),
          withInterval(cpu, 0),
          median(redisCpu).toFixed(0),
          median(p99).toFixed(1),
        ),
      );
    }

    const { first, replay } = field.ours;
    const ofPlain = (/** @type {typeof first} */ contender) =>
      figure(pairwiseRatios(contender.samples.perSecond, field.plainOf(contender).samples.perSecond));
    say('');
    say(
      JSON.stringify({
        bench: 'idempotency',
        firstOfPlain: ofPlain(first),
        replayOfPlain: ofPlain(replay),
        commandsFirst: Number(first.commands.toFixed(2)),
        commandsReplay: Number(replay.commands.toFixed(2)),
      }),
    );
    if (field.violations.length > 0) {
      say(field.violations.join('\n'));
      process.exitCode = 1;
    }
  } finally {
    await field.close();
  }
} finally {
  await server.stop();
}
