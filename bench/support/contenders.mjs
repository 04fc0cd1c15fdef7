import { peers } from './peers.mjs';
import { openAsyncMutex, openBlpopToken, rawLock } from './references.mjs';
import { openThisModule } from './this-module.mjs';

/** The time between two tries of a tuned peer: a tenth of what most have, and no more commands than Redis can take. */
export const TUNED_POLL_MS = 10;

/**
 * One way of taking and giving back a lock.
 *
 * @typedef {object} Contender
 * @property {string} name
 * @property {'reference' | 'ours' | 'peer'} kind
 * @property {number} [pollMs] the time between two tries, for those that poll
 * @property {boolean} [defaults] a peer as it comes (apart from never giving up)
 * @property {boolean} [tuned] a peer that polls every {@link TUNED_POLL_MS}
 * @property {boolean} [byRun] its sections run through `Session.run`
 * @property {(url: string) => Promise<import('./session.mjs').Session>} open
 */

/** @type {Contender} */
export const ours = { name: 'nestjs-redis-lock', kind: 'ours', open: openThisModule };

export const OURS_WITH_LOCK = `${ours.name}, withLock`;
export const IN_PROCESS_CEILING = 'async-mutex';
export const HAND_OVER_FLOOR = 'BLPOP token';

/** @type {readonly Contender[]} for locks that are free: what matters is the way there and back */
export const cycleContenders = [
  { name: 'raw ioredis', kind: 'reference', open: rawLock({}, TUNED_POLL_MS) },
  {
    name: 'raw ioredis, auto-pipelining',
    kind: 'reference',
    open: rawLock({ enableAutoPipelining: true }, TUNED_POLL_MS),
  },
  ours,
  ...peers.map(({ name, open }) => ({
    name,
    kind: /** @type {const} */ ('peer'),
    open: (/** @type {string} */ url) => open(url),
  })),
];

/** @type {readonly Contender[]} for locks that somebody else has: what matters is how one waits */
export const waitContenders = [
  ours,
  {
    name: OURS_WITH_LOCK,
    kind: 'reference',
    byRun: true,
    open: openThisModule,
  },
  { name: IN_PROCESS_CEILING, kind: 'reference', open: openAsyncMutex },
  { name: HAND_OVER_FLOOR, kind: 'reference', open: openBlpopToken },
  { name: 'raw polling', kind: 'reference', pollMs: TUNED_POLL_MS, open: rawLock({}, TUNED_POLL_MS) },
  ...peers.flatMap((peer) => {
    const asItComes = peer.pollMs === TUNED_POLL_MS;
    /** @type {Contender} */
    const tuned = {
      name: `${peer.name}, ${TUNED_POLL_MS} ms`,
      kind: 'peer',
      pollMs: TUNED_POLL_MS,
      tuned: true,
      defaults: asItComes,
      open: (url) => peer.open(url, TUNED_POLL_MS),
    };
    /** @type {Contender} */
    const untouched = {
      name: peer.name,
      kind: 'peer',
      pollMs: peer.pollMs,
      defaults: true,
      open: (url) => peer.open(url),
    };
    return asItComes ? [tuned] : [tuned, untouched];
  }),
];

/**
 * @param {readonly Contender[]} contenders
 * @param {string} name
 */
export function named(contenders, name) {
  const found = contenders.find((contender) => contender.name === name);
  if (!found) throw new Error(`There is no contender ${JSON.stringify(name)}.`);
  return found;
}
