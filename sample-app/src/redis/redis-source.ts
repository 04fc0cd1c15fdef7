import { reasonOf } from '../reason-of.js';
import { findRedisServer, startLocalRedis, type LocalRedisServer } from './local-redis-server.js';
import { pingRedis } from './ping-redis.js';

/** Under which Nest provides the {@link RedisSource}. */
export const REDIS_SOURCE = Symbol('RedisSource');

/** Where the locks live in this run. */
export type RedisSource =
  | {
      kind: 'redis';
      url: string;
      description: string;
      stop(): Promise<void>;
      /** Where it was started for this run. */
      server?: LocalRedisServer;
    }
  | { kind: 'memory'; description: string; stop(): Promise<void> };

const nothingToStop = async (): Promise<void> => undefined;

/**
 * `REDIS_URL`, else a Redis server of this machine started for this run, else the memory of this process.
 * A `REDIS_URL` that does not answer is an error: to go on with something else would split the locks.
 */
export async function openRedisSource(env: NodeJS.ProcessEnv = process.env): Promise<RedisSource> {
  if (env.REDIS_URL) {
    const shown = withoutPassword(env.REDIS_URL);
    try {
      await pingRedis(env.REDIS_URL);
    } catch (error) {
      throw new Error(`Redis at REDIS_URL ${shown} cannot be reached: ${reasonOf(error)}`, { cause: error });
    }
    return { kind: 'redis', url: env.REDIS_URL, description: `Redis at ${shown}`, stop: nothingToStop };
  }
  const binary = findRedisServer(env);
  if (binary) {
    const server = await startLocalRedis(binary);
    const { url, stop } = server;
    const description = `Redis at ${url} (${binary}, started for this run)`;
    return { kind: 'redis', url, description, stop, server };
  }
  return {
    kind: 'memory',
    description:
      'the memory of this process: no REDIS_URL and no redis-server was found. Everything works, but a second ' +
      'process would not see these locks, and a restart forgets them',
    stop: nothingToStop,
  };
}

function withoutPassword(url: string): string {
  try {
    const parsed = new URL(url);
    if (parsed.password) parsed.password = '***';
    return parsed.href;
  } catch {
    return '(not a URL)';
  }
}
