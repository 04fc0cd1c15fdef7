import { Redis } from 'ioredis';

/** One connection, one PING, no retries. Rejects with the reason why there was no answer. */
export function pingRedis(url: string, timeoutMs = 3_000): Promise<void> {
  return once(url, timeoutMs, (client) => client.ping());
}

/** Writes a snapshot to the server's disk. */
export function saveRedis(url: string, timeoutMs = 10_000): Promise<void> {
  return once(url, timeoutMs, (client) => client.save());
}

async function once(
  url: string,
  timeoutMs: number,
  command: (client: Redis) => Promise<unknown>,
): Promise<void> {
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: timeoutMs,
    disconnectTimeout: 100,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  let reason: Error | undefined;
  // A rejected connect() only says that the connection was closed; why, is told by the event.
  client.on('error', (error: Error) => (reason = error));
  // Around all of it: a server that accepts the connection and then says nothing must not hang the start.
  const timer = setTimeout(() => {
    reason = new Error(`no answer within ${timeoutMs} ms`);
    client.disconnect();
  }, timeoutMs);
  try {
    await client.connect();
    await command(client);
  } catch (error) {
    throw reason ?? error;
  } finally {
    clearTimeout(timer);
    client.disconnect();
  }
}
