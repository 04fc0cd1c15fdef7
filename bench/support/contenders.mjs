import { randomUUID } from 'node:crypto';
import { createLock } from '@microfleet/ioredis-lock';
import { Redlock as RedisKitRedlock } from '@redis-kit/lock';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { Mutex } from 'redis-semaphore';
import Redlock from 'redlock';
import { openThisModule } from './this-module.mjs';

/** The lease that everybody asks for, in milliseconds: long enough that nobody renews within a cycle. */
export const TTL_MS = 30_000;

/**
 * One way of taking and giving back a lock.
 *
 * @typedef {import('redis').RedisClientType} RedisClientType
 *
 * @typedef {object} Contender
 * @property {string} name
 * @property {'raw' | 'ours' | 'peer'} kind
 * @property {(url: string) => Promise<Session>} open
 *
 * @typedef {object} Session
 * @property {(key: string) => Promise<unknown>} cycle one acquire + release; rejects when the lock was not granted
 * @property {() => Promise<unknown>} close
 */

const COMPARE_AND_DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/** @param {string} name */
function busy(name) {
  return new Error(`${name} did not get a lock that nobody else holds: the figures would be wrong.`);
}

/**
 * The least that a correct single-server lock can cost: what everything here is compared with.
 *
 * @param {import('ioredis').RedisOptions} options
 * @returns {(url: string) => Promise<Session>}
 */
function raw(options) {
  return async (url) => {
    const client = new Redis(url, options);
    const sha = String(await client.script('LOAD', COMPARE_AND_DELETE));
    return {
      async cycle(key) {
        const token = randomUUID();
        if ((await client.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') throw busy('raw');
        if ((await client.evalsha(sha, 1, key, token)) !== 1) throw busy('raw');
      },
      close: () => client.quit(),
    };
  };
}

/** @type {readonly Contender[]} */
export const contenders = [
  { name: 'raw ioredis', kind: 'raw', open: raw({}) },
  { name: 'raw ioredis, auto-pipelining', kind: 'raw', open: raw({ enableAutoPipelining: true }) },
  { name: 'nestjs-redis-lock', kind: 'ours', open: openThisModule },
  {
    name: 'redlock 5 beta',
    kind: 'peer',
    async open(url) {
      const client = new Redis(url);
      const redlock = new Redlock([client]);
      return {
        async cycle(key) {
          const lock = await redlock.acquire([key], TTL_MS);
          await lock.release();
        },
        close: () => redlock.quit(),
      };
    },
  },
  {
    name: 'redis-semaphore',
    kind: 'peer',
    async open(url) {
      const client = new Redis(url);
      return {
        async cycle(key) {
          const mutex = new Mutex(client, key, { lockTimeout: TTL_MS });
          await mutex.acquire();
          await mutex.release();
        },
        close: () => client.quit(),
      };
    },
  },
  {
    name: '@microfleet/ioredis-lock',
    kind: 'peer',
    async open(url) {
      const client = new Redis(url);
      return {
        async cycle(key) {
          const lock = createLock(client, { timeout: TTL_MS });
          await lock.acquire(key);
          await lock.release();
        },
        close: () => client.quit(),
      };
    },
  },
  {
    name: '@redis-kit/lock',
    kind: 'peer',
    async open(url) {
      const client = createClient({ url });
      await client.connect();
      const redlock = new RedisKitRedlock([/** @type {RedisClientType} */ (client)]);
      return {
        async cycle(key) {
          const lock = await redlock.acquire(key, TTL_MS);
          if (!lock || !(await lock.release())) throw busy('@redis-kit/lock');
        },
        close: () => client.close(),
      };
    },
  },
];
