import { createServer } from 'node:net';

/** A port of the loopback that is free at this moment. */
export function freePort(): Promise<number> {
  return tryPort(0);
}

/** As {@link freePort}, but one whose cluster bus (port + 10000) is free too. */
export async function freeClusterPort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    try {
      await tryPort(port + 10_000);
      return await tryPort(port);
    } catch {
      continue;
    }
  }
}

function tryPort(wanted: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(wanted, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}
