import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

/**
 * A TCP proxy that lets bytes through later: a network between client and server. It runs in a process of its own,
 * so that it never waits for the event loop that it delays.
 */

/**
 * @param {number} targetPort
 * @param {number} delayMs each way
 * @returns {Promise<{ url: string, stop: () => void }>}
 */
export async function startDelayProxy(targetPort, delayMs) {
  const child = fork(fileURLToPath(import.meta.url), [String(targetPort), String(delayMs)]);
  const failed = once(child, 'exit').then(() => Promise.reject(new Error('The proxy ended.')));
  const [port] = await Promise.race([once(child, 'message'), failed]);
  failed.catch(() => undefined);
  return { url: `redis://127.0.0.1:${port}`, stop: () => child.kill('SIGKILL') };
}

/** @param {number} targetPort @param {number} delayMs */
function serve(targetPort, delayMs) {
  const server = createServer({ noDelay: true }, (client) => {
    const target = connect({ port: targetPort, host: '127.0.0.1', noDelay: true });
    for (const [from, to] of /** @type {const} */ ([
      [client, target],
      [target, client],
    ])) {
      // timers of one length fire in the order in which they were set: bytes keep theirs
      from.on('data', (bytes) => setTimeout(() => to.write(bytes), delayMs));
      from.on('close', () => setTimeout(() => to.destroy(), delayMs));
      from.on('error', () => from.destroy());
    }
  });
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    process.send?.(typeof address === 'object' ? address?.port : undefined);
  });
  process.on('disconnect', () => process.exit());
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  serve(Number(process.argv[2]), Number(process.argv[3]));
