import { named, waitContenders } from './contenders.mjs';
import * as jobs from './jobs.mjs';

/**
 * A process of its own for one contender. Told what to do over its channel, it answers with what came out.
 *
 * @typedef {{ id: number, job: string, options: unknown }} Order
 */

const [name = '', url = ''] = process.argv.slice(2);
const session = await named(waitContenders, name).open(url);

/** @type {ReturnType<typeof jobs.handOverSide> | undefined} */
let side;

/** @type {Record<string, (options: any) => unknown>} */
const table = {
  ready: () => undefined,
  prepare: ({ key }) => session.prepare?.(key),
  emptySections: (options) => jobs.emptySections(session, options),
  burst: (options) => jobs.burst(session, options),
  sleepingSections: (options) => jobs.sleepingSections(session, options),
  hold: (options) => jobs.hold(session, options),
  wait: (options) => jobs.wait(session, options),
  openSide(options) {
    side = jobs.handOverSide(session, options);
  },
  take: ({ key }) => side?.take(key),
  letGo: () => side?.letGo(),
};

/** @param {Order} order */
async function carryOut({ id, job, options }) {
  try {
    process.send?.({ id, result: await table[job]?.(options) });
  } catch (error) {
    process.send?.({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
}

process.on('message', (/** @type {Order} */ order) => void carryOut(order));
// the bench is over, or gone
process.on('disconnect', () => process.exit());
