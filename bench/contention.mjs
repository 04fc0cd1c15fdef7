import { describeMachine } from './support/machine.mjs';
import { readOptions } from './support/options.mjs';
import { startRedis } from './support/redis-server.mjs';
import { burst } from './support/scenarios/burst.mjs';
import { fourProcesses } from './support/scenarios/four-processes.mjs';
import { idle } from './support/scenarios/idle.mjs';
import { oneProcess } from './support/scenarios/one-process.mjs';
import { sentCommandsObserver } from './support/sent-commands.mjs';
import { say } from './support/table.mjs';

/**
 * One hot key: this module beside the libraries in use today, in one process and in four, at once and for long.
 *
 * @typedef {object} Run
 * @property {string} url
 * @property {import('./support/sent-commands.mjs').SentCommandsObserver} observer
 * @property {number} rounds
 * @property {number} seconds of one slice of this module and of what does not poll
 * @property {number} peerSeconds of one slice of what polls
 * @property {(contender: import('./support/contenders.mjs').Contender) => boolean} wanted in the runs of tuned peers
 * @property {(contender: import('./support/contenders.mjs').Contender) => boolean} wantedDefaults beside the tuned
 */

const scenarios = { oneProcess, burst, fourProcesses, idle };

const {
  rounds,
  seconds,
  'peer-seconds': peerSeconds,
  peers,
  only,
} = readOptions(
  { rounds: 5, seconds: 5, 'peer-seconds': 3, peers: 'tuned', only: 'all' },
  { peers: ['tuned', 'all', 'none'], only: ['all', ...Object.keys(scenarios)] },
);

const server = await startRedis();
const observer = sentCommandsObserver(server.url);
try {
  say(`${describeMachine(server)}; ${rounds} rounds of ${seconds} s (pollers ${peerSeconds} s)`);

  /** @type {Run} */
  const run = {
    url: server.url,
    observer,
    rounds,
    seconds,
    peerSeconds,
    wanted: ({ kind, tuned }) => kind !== 'peer' || (peers !== 'none' && (tuned === true || peers === 'all')),
    wantedDefaults: ({ defaults }) => defaults === true && peers !== 'none',
  };
  /** @type {Record<string, object>} */
  const figures = {};
  let violations = 0;
  for (const [name, scenario] of Object.entries(scenarios)) {
    if (only !== 'all' && only !== name) continue;
    const outcome = await scenario(run);
    figures[name] = outcome.figures;
    violations += outcome.violations;
  }
  say('');
  say(JSON.stringify({ bench: 'contention', ...figures, violations }));
  if (violations > 0) process.exitCode = 1;
} finally {
  observer.close();
  await server.stop();
}
