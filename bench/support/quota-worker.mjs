import { quotaContenders } from './quota-contenders.mjs';

/**
 * A process of its own for one contender of the quota benchmark. Told what to do over its channel, it answers with what
 * came out.
 *
 * @typedef {{ id: number, job: string, options: any }} Order
 */

const [name = '', url = ''] = process.argv.slice(2);
const contender = quotaContenders.find((one) => one.name === name);
if (!contender) throw new Error(`There is no contender ${name}.`);
const session = await contender.open(url);
let calls = 0;

/**
 * Callers that take one unit again and again.
 *
 * @param {{ key: string, callers: number, forMs: number }} options
 * @returns {Promise<{ taken: number, elapsedMs: number, latencies: Float64Array }>} latencies in ms
 */
async function takeUnits({ key, callers, forMs }) {
  /** @type {number[]} */
  const latencies = [];
  const started = performance.now();
  const end = started + forMs;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      let asked = performance.now();
      while (asked < end) {
        calls += 1;
        await session.take(key, `${process.pid}:${calls}`);
        const answered = performance.now();
        latencies.push(answered - asked);
        asked = answered;
      }
    }),
  );
  const elapsedMs = performance.now() - started;
  return { taken: latencies.length, elapsedMs, latencies: Float64Array.from(latencies) };
}

/** @type {Record<string, (options: any) => unknown>} */
const table = {
  ready: () => undefined,
  async prepare({ key, amount }) {
    await session.prepare(key, amount);
  },
  take: takeUnits,
  remaining: ({ key }) => session.remaining(key),
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
