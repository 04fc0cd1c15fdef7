import { Redis, type Cluster, type RedisOptions } from 'ioredis';
import { LockConfigError } from '../../errors.js';

/** What the application may give to say which Redis. */
export type RedisSource = string | RedisOptions | Redis | Cluster;

/** Our own client, and what the application's client would have put before every key. */
export interface OwnClient {
  client: Redis | Cluster;
  keyPrefix: string;
}

const DEFAULT_URL = 'redis://127.0.0.1:6379';
const LONGEST_RECONNECT_DELAY_MS = 1_000;
/** How long a socket that was closed may linger. */
const DISCONNECT_TIMEOUT_MS = 200;

/**
 * What makes a command certain. Resent after a closed connection, a `SET NX` would be answered "busy" to its own
 * owner, and a queued one would run after its caller has given up.
 */
const OWN_SETTINGS = {
  keyPrefix: '',
  lazyConnect: true,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  // the time-out is our own: ioredis's does not cover a Cluster's queue, and drops late answers
  commandTimeout: undefined,
  socketTimeout: undefined,
  disconnectTimeout: DISCONNECT_TIMEOUT_MS,
  monitor: false,
  readOnly: false,
  scripts: undefined,
  stringNumbers: false,
  replyMapping: 'legacy',
  // a demoted master: look for the new one, but never send the command again
  reconnectOnError: (error: Error) => error.message.includes('READONLY'),
  // an application may give up reconnecting; a lock must come back with its Redis
  retryStrategy: reconnectDelay,
} satisfies RedisOptions;

function reconnectDelay(times: number): number {
  return Math.min(20 * 2 ** Math.min(times, 10), LONGEST_RECONNECT_DELAY_MS) * (0.75 + Math.random() / 4);
}

/**
 * Makes our own client, not connected yet. The application's client and its options stay as they are.
 *
 * @throws LockConfigError when the source is nothing that leads to a Redis.
 */
export function openClient(source: RedisSource = DEFAULT_URL): OwnClient {
  if (typeof source === 'string') return fromOptions(checkUrl(source));
  if (typeof source !== 'object' || source === null || Array.isArray(source))
    throw wrongSource(describe(source));
  if (isCluster(source)) return fromCluster(source);
  if (isClient(source)) return fromClient(source);
  if ('duplicate' in source || 'sendCommand' in source) throw wrongSource('a client of another library');
  return fromOptions(checkOptions(source));
}

/** By way of a client that never connects, so that ioredis reads URLs and options as it always does. */
function fromOptions(options: RedisOptions | string): OwnClient {
  let client: Redis;
  try {
    client =
      typeof options === 'string'
        ? new Redis(options, { lazyConnect: true })
        : new Redis({ ...options, lazyConnect: true });
  } catch (error) {
    throw new LockConfigError(
      { path: 'redis', message: `ioredis refuses these options: ${(error as Error).message}` },
      { cause: error },
    );
  }
  return fromClient(client);
}

function fromClient(application: Redis): OwnClient {
  const { options, condition } = application;
  // the database that it is in now: it may have been SELECTed since
  const db = condition?.select ?? options.db ?? 0;
  // of a name ioredis makes NaN, and stays in database 0
  if (!Number.isInteger(db) || db < 0) {
    throw new LockConfigError({ path: 'redis.db', message: 'is the number of a database: 0 or above' });
  }
  const client = application.duplicate({
    ...OWN_SETTINGS,
    db,
  });
  return { client, keyPrefix: text(options.keyPrefix) };
}

function fromCluster(application: Cluster): OwnClient {
  const { retryStrategy, enableOfflineQueue, readOnly, ...redisOptions } = OWN_SETTINGS;
  const client = application.duplicate([], {
    keyPrefix: '',
    lazyConnect: true,
    enableOfflineQueue,
    enableAutoPipelining: false,
    scaleReads: 'master',
    scripts: undefined,
    // 0 switches off ioredis's own resending of what a closing node may have done
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    clusterRetryStrategy: retryStrategy,
    redisOptions: { ...application.options.redisOptions, ...redisOptions },
  });
  return {
    client,
    keyPrefix: text(application.options.keyPrefix ?? application.options.redisOptions?.keyPrefix),
  };
}

/** A client for messages beside one of ours. Its owner sees every connection end, and subscribes again himself. */
export function subscriberOf(own: Redis): Redis {
  // no database: channels belong to none, and SELECT would be one command more
  return own.duplicate({ ...OWN_SETTINGS, db: 0, autoResubscribe: false, retryStrategy: () => null });
}

/** By shape: the application's ioredis may be another copy than ours. */
export function isCluster(client: object): client is Cluster {
  return 'isCluster' in client && client.isCluster === true && 'duplicate' in client;
}

function isClient(client: object): client is Redis {
  return 'isCluster' in client && client.isCluster === false && 'duplicate' in client;
}

function checkUrl(url: string): string {
  const isSocket = url.startsWith('/');
  if (!isSocket && !(URL.canParse(url) && /^rediss?:$/.test(new URL(url).protocol))) {
    // not the text itself: it may hold a password
    throw wrongSource('a text that is no Redis URL');
  }
  return url;
}

function checkOptions(options: RedisOptions): RedisOptions {
  const port: unknown = options.port;
  if (port !== undefined && !(Number.isInteger(Number(port)) && Number(port) > 0 && Number(port) < 65_536)) {
    throw new LockConfigError({
      path: 'redis.port',
      message: `${describe(port)} is no port: give 1 to 65535`,
    });
  }
  for (const name of ['host', 'path', 'username', 'password'] as const) {
    const value: unknown = options[name];
    if (value !== undefined && value !== null && typeof value !== 'string') {
      throw new LockConfigError({ path: `redis.${name}`, message: 'is a text' });
    }
  }
  return options;
}

function wrongSource(found: string): LockConfigError {
  return new LockConfigError({
    path: 'redis',
    message: `${found} does not say which Redis: give a URL (redis://host:6379, rediss://…), ioredis options, or an ioredis Redis or Cluster client`,
  });
}

function describe(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  return value === null
    ? 'null'
    : typeof value === 'number'
      ? String(value)
      : `a value of type ${typeof value}`;
}

function text(prefix: string | Buffer | undefined | null): string {
  return prefix ? prefix.toString() : '';
}
