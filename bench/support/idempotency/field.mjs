import { Redis } from 'ioredis';
import { sentCommandsObserver } from '../sent-commands.mjs';
import { startProcess } from '../worker-process.mjs';

/** Records that replays turn among: enough that not one of them is always in the cache. */
const KNOWN_KEYS = 1_000;
/** Sent under MONITOR. */
const WATCHED = 200;
/** Over how many requests commands are counted: all are answered, so none is counted in half. */
const COUNTED = 1_000;

/**
 * @typedef {object} Contender
 * @property {string} name
 * @property {'plain' | 'thisModule' | 'nodeIdempotency'} app
 * @property {string} path
 * @property {boolean} repeats whether a request is one that was answered before
 * @property {'always' | 'never'} runs whether the handler runs for a request
 * @property {number} commands that Redis is sent per request
 * @property {Samples} samples one of each per round
 *
 * @typedef {Record<'perSecond' | 'cpu' | 'redisCpu' | 'p99', number[]>} Samples
 */

/** @returns {Samples} */
const noSamples = () => ({ perSecond: [], cpu: [], redisCpu: [], p99: [] });

/** @type {Array<[name: string, app: Contender['app'], path: string, repeats: boolean, runs: Contender['runs']]>} */
const CONTENDERS = [
  ['plain', 'plain', 'plain', false, 'always'],
  ['plain, module imported', 'thisModule', 'undecorated', false, 'always'],
  ['nestjs-redis-lock, first', 'thisModule', 'idempotent', false, 'always'],
  ['nestjs-redis-lock, replay', 'thisModule', 'idempotent', true, 'never'],
  ['bare interceptor, first', 'plain', 'bare', false, 'always'],
  ['bare interceptor, replay', 'plain', 'bare', true, 'never'],
  ['plain, Nest 10', 'nodeIdempotency', 'plain', false, 'always'],
  ['@node-idempotency, first', 'nodeIdempotency', 'idempotent', false, 'always'],
  ['@node-idempotency, replay', 'nodeIdempotency', 'idempotent', true, 'never'],
];

/**
 * The applications, each in a process of its own, and the process that sends requests to them.
 *
 * @param {string} redisUrl
 * @param {number} connections
 */
export async function openIdempotencyField(redisUrl, connections) {
  const [client, ...servers] = await Promise.all([
    startProcess(new URL('client.mjs', import.meta.url), 'the client', []),
    ...['plain', 'thisModule', 'nodeIdempotency'].map((app) =>
      startProcess(new URL('server.mjs', import.meta.url), app, [app, redisUrl]),
    ),
  ]);
  const [plain, thisModule, nodeIdempotency] = /** @type {[typeof client, typeof client, typeof client]} */ (
    servers
  );
  const apps = { plain, thisModule, nodeIdempotency };
  const ports = {
    plain: await plain.run('port'),
    thisModule: await thisModule.run('port'),
    nodeIdempotency: await nodeIdempotency.run('port'),
  };
  const observer = sentCommandsObserver(redisUrl);
  const redis = new Redis(redisUrl);
  const contenders = CONTENDERS.map(([name, app, path, repeats, runs]) => ({
    name,
    app,
    path,
    repeats,
    runs,
    commands: NaN,
    samples: noSamples(),
  }));
  /** @type {string[]} */
  const violations = [];

  const named = (/** @type {string} */ name) => {
    const found = contenders.find((contender) => contender.name === name);
    if (!found) throw new Error(`There is no contender ${name}.`);
    return found;
  };
  const urlOf = (/** @type {Contender} */ { app, path }) => `http://127.0.0.1:${ports[app]}/${path}`;
  const send = (/** @type {Contender} */ contender, /** @type {object} */ amount) =>
    client.run('send', { url: urlOf(contender), connections, repeats: contender.repeats, ...amount });

  async function redisCpuMicros() {
    const info = await redis.info('cpu');
    const read = (/** @type {string} */ kind) =>
      Number(new RegExp(`^used_cpu_${kind}:([\\d.]+)`, 'm').exec(info)?.[1]);
    return (read('user') + read('sys')) * 1_000_000;
  }

  return {
    contenders,
    violations,
    ours: { first: named('nestjs-redis-lock, first'), replay: named('nestjs-redis-lock, replay') },
    /** The same route in an application of the same Nest, with nothing around it. */
    plainOf: (/** @type {Contender} */ { app }) =>
      named(app === 'nodeIdempotency' ? 'plain, Nest 10' : 'plain'),
    /** Rotates: nobody always runs behind the same neighbour. */
    order(/** @type {number} */ round) {
      const turn = round % contenders.length;
      return [...contenders.slice(turn), ...contenders.slice(0, turn)];
    },

    /** Code is compiled, scripts are loaded, the records to replay are written, commands are counted. */
    async warmUp(/** @type {number} */ seconds) {
      for (const contender of contenders) {
        if (contender.repeats) await client.run('prepare', { url: urlOf(contender), count: KNOWN_KEYS });
        // before any slice: one that ends by time leaves commands under way, which would meet the MONITOR itself
        const inside = await observer.insideScripts(() => send(contender, { amount: WATCHED }));
        const { sent } = await observer.count(inside, () => send(contender, { amount: COUNTED }));
        contender.commands = sent / COUNTED;
      }
      for (const contender of contenders) await send(contender, { seconds });
    },

    async measure(/** @type {Contender} */ contender, /** @type {number} */ seconds) {
      const server = apps[contender.app];
      const [before, redisBefore] = [await server.run('usage'), await redisCpuMicros()];
      const { requests, perSecond, p99Ms } = await send(contender, { seconds });
      const [after, redisAfter] = [await server.run('usage'), await redisCpuMicros()];
      const { samples, name, runs } = contender;
      samples.perSecond.push(perSecond);
      samples.cpu.push((after.cpuMicros - before.cpuMicros) / requests);
      samples.redisCpu.push((redisAfter - redisBefore) / requests);
      samples.p99.push(p99Ms);
      // what is under way when a slice ends may still run, in this count or in the next one
      const ran = after.runs - before.runs;
      if (runs === 'never' ? ran > connections : ran < requests || ran > requests + connections) {
        violations.push(`${name}: ${requests} requests, ${ran} runs of the handler`);
      }
    },

    async close() {
      observer.close();
      redis.disconnect();
      await Promise.all([client, ...servers].map((process) => process.stop()));
    },
  };
}

/** @typedef {Awaited<ReturnType<typeof openIdempotencyField>>} IdempotencyField */
