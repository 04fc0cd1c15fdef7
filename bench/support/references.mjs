import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { TTL_MS } from './session.mjs';

/** What the libraries are compared with: nothing here is a library for locks in Redis. */

const COMPARE_AND_DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/**
 * The least that a correct single-server lock can cost, and a plain loop around it when somebody else has it.
 *
 * @param {import('ioredis').RedisOptions} options
 * @param {number} pollMs
 * @returns {(url: string) => Promise<import('./session.mjs').Session>}
 */
export function rawLock(options, pollMs) {
  return async (url) => {
    const client = new Redis(url, options);
    const sha = String(await client.script('LOAD', COMPARE_AND_DELETE));
    return {
      async acquire(key) {
        const token = randomUUID();
        while ((await client.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') await sleep(pollMs);
        return async () => {
          if ((await client.evalsha(sha, 1, key, token)) !== 1) throw new Error(`raw lost ${key}`);
        };
      },
      close: () => client.quit(),
    };
  };
}

/**
 * A token in a list: `BLPOP` takes it, `LPUSH` puts it back. The promptest hand-over that Redis has, and no lock:
 * whoever dies with the token takes it along. Each waiting caller blocks a connection of its own.
 *
 * @param {string} url
 * @returns {Promise<import('./session.mjs').Session>}
 */
export async function openBlpopToken(url) {
  const pusher = new Redis(url);
  /** @type {Redis[]} */
  const all = [];
  /** @type {Redis[]} */
  const idle = [];
  const open = () => {
    const client = new Redis(url);
    all.push(client);
    return client;
  };
  return {
    // one process of a run puts the token there before anybody asks for it
    prepare: (key) => pusher.lpush(key, 'token'),
    async acquire(key) {
      const client = idle.pop() ?? open();
      await client.blpop(key, 0);
      idle.push(client);
      return () => pusher.lpush(key, 'token');
    },
    close() {
      for (const client of [pusher, ...all]) client.disconnect();
    },
  };
}

/**
 * A mutex that knows one process only: what waiting costs when nobody has to be asked.
 *
 * @returns {Promise<import('./session.mjs').Session>}
 */
export async function openAsyncMutex() {
  const { Mutex } = await import('async-mutex');
  /** @type {Map<string, import('async-mutex').Mutex>} */
  const mutexes = new Map();
  return {
    acquire(key) {
      let mutex = mutexes.get(key);
      if (!mutex) mutexes.set(key, (mutex = new Mutex()));
      return mutex.acquire();
    },
    close: () => undefined,
  };
}
