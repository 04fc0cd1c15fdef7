import { named, waitContenders } from './contenders.mjs';
import * as jobs from './jobs.mjs';
import { carryOutOrders } from './orders.mjs';

/** A process of its own for one contender. */

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

carryOutOrders(table);
