import autocannon from 'autocannon';
import { carryOutOrders } from '../orders.mjs';
import { ORDER } from './orders.mjs';

/** A process of its own that sends requests. */

const CREATED = 201;

/** Keys must not come twice, in no process: the process id keeps two runs on one Redis apart. */
let fresh = 0;
const freshKey = () => `${process.pid}-${String((fresh += 1)).padStart(24, '0')}`;

/** @type {Map<string, string[]>} keys whose request was answered, by url */
const known = new Map();

/**
 * @param {{ url: string, connections: number, repeats: boolean, seconds?: number, amount?: number }} options
 * @returns {Promise<{ requests: number, perSecond: number, p50Ms: number, p99Ms: number }>}
 */
async function send({ url, connections, repeats, seconds, amount }) {
  const keys = known.get(url) ?? [];
  if (repeats && keys.length === 0) throw new Error('There is nothing to repeat.');
  let turn = 0;
  const nextKey = repeats ? () => /** @type {string} */ (keys[(turn += 1) % keys.length]) : freshKey;
  const started = performance.now();
  const { errors, timeouts, statusCodeStats, requests, latency } = await autocannon({
    url,
    connections,
    method: 'POST',
    body: JSON.stringify(ORDER),
    headers: { 'content-type': 'application/json' },
    requests: [
      {
        setupRequest(request) {
          return { ...request, headers: { ...request.headers, 'idempotency-key': nextKey() } };
        },
      },
    ],
    ...(amount === undefined ? { duration: seconds } : { amount }),
  });
  const elapsed = (performance.now() - started) / 1_000;
  const statuses = Object.keys(statusCodeStats ?? {});
  if (errors > 0 || timeouts > 0 || statuses.some((status) => Number(status) !== CREATED)) {
    throw new Error(`${url}: ${errors} errors, ${timeouts} time-outs, statuses ${statuses.join(', ')}.`);
  }
  return {
    requests: requests.total,
    perSecond: requests.total / elapsed,
    p50Ms: latency.p50,
    p99Ms: latency.p99,
  };
}

carryOutOrders({
  ready: () => undefined,
  send,
  /** @param {{ url: string, count: number }} options */
  async prepare({ url, count }) {
    const from = fresh;
    await send({ url, connections: 8, repeats: false, amount: count });
    const prefix = process.pid;
    known.set(
      url,
      Array.from({ length: count }, (_, at) => `${prefix}-${String(from + at + 1).padStart(24, '0')}`),
    );
  },
});
