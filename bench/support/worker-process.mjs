import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const WORKER = new URL('worker.mjs', import.meta.url);

/**
 * @typedef {object} WorkerProcess
 * @property {(job: string, options?: object) => Promise<any>} run resolves with the job's result
 * @property {() => Promise<void>} stop at once, whatever it does
 */

/**
 * Starts a process for one contender and waits until it is connected.
 *
 * @param {string} contender
 * @param {string} url
 * @param {URL} [file] what it runs
 * @returns {Promise<WorkerProcess>}
 */
export function startWorker(contender, url, file = WORKER) {
  return startProcess(file, contender, [contender, url]);
}

/**
 * Starts a process that carries out orders (`orders.mjs`) and waits until it is ready.
 *
 * @param {URL} script
 * @param {string} name in what it complains of
 * @param {readonly string[]} args
 * @returns {Promise<WorkerProcess>}
 */
export async function startProcess(script, name, args) {
  const child = fork(fileURLToPath(script), args, {
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  /** @type {Map<number, { resolve: (result: unknown) => void, reject: (error: Error) => void }>} */
  const open = new Map();
  let orders = 0;
  let stopped = false;

  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.once('exit', (code, signal) => {
    const error = new Error(`The process of ${name} ended (${stopped ? 'stopped' : (signal ?? code)}).`);
    for (const { reject } of open.values()) reject(error);
    open.clear();
  });
  child.on(
    'message',
    (/** @type {{ id: number, result?: unknown, error?: string }} */ { id, result, error }) => {
      const order = open.get(id);
      open.delete(id);
      if (error === undefined) order?.resolve(result);
      else order?.reject(new Error(`${name}: ${error}`));
    },
  );

  /** @type {WorkerProcess} */
  const worker = {
    run(job, options = {}) {
      return new Promise((resolve, reject) => {
        const id = (orders += 1);
        open.set(id, { resolve, reject });
        child.send({ id, job, options }, (error) => error && reject(error));
      });
    },
    async stop() {
      stopped = true;
      child.kill('SIGKILL');
      await gone;
    },
  };
  await worker.run('ready');
  return worker;
}
