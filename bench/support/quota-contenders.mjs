import { Redis } from 'ioredis';
import { openForUpdate, rawScript } from './quota-references.mjs';
import { SHARDS, SPREAD } from './quota-session.mjs';
import { openApplication } from './this-module.mjs';

/**
 * One way of taking from a quota.
 *
 * @typedef {object} QuotaContender
 * @property {string} name
 * @property {'redis' | 'postgres'} store
 * @property {boolean} [fourProcesses] whether it is asked by four processes too
 * @property {string} [prefix] what its keys begin with
 * @property {(url: string) => Promise<import('./quota-session.mjs').QuotaSession>} open
 */

/** @param {{ ids?: boolean, shards?: boolean }} [options] */
function thisModule({ ids = false, shards = false } = {}) {
  return async (/** @type {string} */ url) => {
    const { app, quotas } = await openApplication(
      url,
      shards ? { quota: { shards: { [`${SPREAD}*`]: SHARDS } } } : {},
    );
    return {
      prepare: (/** @type {string} */ key, /** @type {number} */ amount) => quotas.init(key, amount),
      take: ids
        ? (/** @type {string} */ key, /** @type {string} */ id) => quotas.deduct(key, 1, { operationId: id })
        : (/** @type {string} */ key) => quotas.deduct(key),
      remaining: async (/** @type {string} */ key) => (await quotas.remaining(key)) ?? NaN,
      close: () => app.close(),
    };
  };
}

/** What is written without atomic steps: take the lock, read, decide, write, give the lock back.
 * @param {string} url
 */
async function openLockReadWrite(url) {
  const { app, locks } = await openApplication(url);
  const client = new Redis(url);
  return {
    prepare: (/** @type {string} */ key, /** @type {number} */ amount) => client.hset(key, 'remain', amount),
    take: (/** @type {string} */ key) =>
      locks.withLock(`lock:${key}`, async () => {
        const left = Number(await client.hget(key, 'remain'));
        if (left < 1) throw new Error(`${key} has nothing left.`);
        await client.hset(key, 'remain', left - 1);
      }),
    remaining: async (/** @type {string} */ key) => Number(await client.hget(key, 'remain')),
    async close() {
      client.disconnect();
      await app.close();
    },
  };
}

export const SCRIPT = 'one EVALSHA per call';
export const SCRIPT_IDS = `${SCRIPT}, record kept`;
export const OURS = 'nestjs-redis-lock';
export const OURS_IDS = `${OURS}, operation ids`;

/** @type {readonly QuotaContender[]} */
export const quotaContenders = [
  { name: SCRIPT, store: 'redis', fourProcesses: true, open: rawScript() },
  { name: SCRIPT_IDS, store: 'redis', fourProcesses: true, open: rawScript({ record: true }) },
  { name: `${SCRIPT}, auto-pipelining`, store: 'redis', open: rawScript({ autoPipelining: true }) },
  { name: OURS, store: 'redis', fourProcesses: true, open: thisModule() },
  { name: OURS_IDS, store: 'redis', fourProcesses: true, open: thisModule({ ids: true }) },
  {
    name: `${OURS}, ${SHARDS} shards`,
    store: 'redis',
    fourProcesses: true,
    prefix: SPREAD,
    open: thisModule({ shards: true }),
  },
  { name: 'SELECT … FOR UPDATE, Postgres', store: 'postgres', fourProcesses: true, open: openForUpdate },
  { name: 'lock + read + write', store: 'redis', fourProcesses: true, open: openLockReadWrite },
];
