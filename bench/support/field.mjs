import { startWorker } from './worker-process.mjs';

/** Names of keys must not repeat within one run: what one round leaves behind is not the next one's. */
let keys = 0;

/** @param {string} scenario a key that nothing else in this run uses */
export function freshKey(scenario) {
  keys += 1;
  return `bench:${scenario}:${keys}`;
}

/**
 * The processes of the contenders of one scenario. They stay over the rounds, so that code is compiled and
 * connections stand; one that got stuck is replaced.
 *
 * @typedef {import('./contenders.mjs').Contender} Contender
 * @typedef {import('./worker-process.mjs').WorkerProcess} WorkerProcess
 *
 * @typedef {object} Field
 * @property {readonly Contender[]} contenders
 * @property {(round: number) => readonly Contender[]} order rotates: nobody always runs behind the same neighbour
 * @property {(contender: Contender) => Promise<readonly WorkerProcess[]>} workers
 * @property {(contender: Contender) => Promise<void>} replace at the next use
 * @property {() => Promise<void>} close
 */

/**
 * @param {string} url
 * @param {readonly Contender[]} contenders
 * @param {number} processes of each
 * @returns {Field}
 */
export function openField(url, contenders, processes) {
  /** @type {Map<Contender, Promise<readonly WorkerProcess[]>>} */
  const running = new Map();
  /** @param {Contender} contender */
  async function replace(contender) {
    const workers = await running.get(contender);
    running.delete(contender);
    await Promise.all(workers?.map((worker) => worker.stop()) ?? []);
  }
  return {
    contenders,
    order(round) {
      const turn = round % contenders.length;
      return [...contenders.slice(turn), ...contenders.slice(0, turn)];
    },
    workers(contender) {
      let workers = running.get(contender);
      if (!workers) {
        workers = Promise.all(Array.from({ length: processes }, () => startWorker(contender.name, url)));
        running.set(contender, workers);
      }
      return workers;
    },
    replace,
    async close() {
      await Promise.all([...running.keys()].map(replace));
    },
  };
}

/**
 * Samples of each round, by contender.
 *
 * @template {string} Name
 * @param {readonly Name[]} names of the figures
 */
export function samplesBy(names) {
  /** @type {Map<string, Record<Name, number[]>>} */
  const all = new Map();
  /** @param {Contender} contender */
  const of = (contender) => {
    const known = all.get(contender.name);
    if (known) return known;
    /** @type {Partial<Record<Name, number[]>>} */
    const fresh = {};
    for (const name of names) fresh[name] = [];
    const samples = /** @type {Record<Name, number[]>} */ (fresh);
    all.set(contender.name, samples);
    return samples;
  };
  return {
    of,
    /** @param {Contender} contender @param {Record<Name, number>} figures */
    add(contender, figures) {
      const samples = of(contender);
      for (const name of names) samples[name].push(figures[name]);
    },
  };
}
