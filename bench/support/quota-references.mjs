import { createHash } from 'node:crypto';
import { Redis } from 'ioredis';
import { Pool } from 'pg';

/** The least that is atomic: check and take. */
const TAKE = `
local left = tonumber(redis.call('HGET', KEYS[1], 'remain'))
if not left or left < tonumber(ARGV[1]) then return -1 end
return redis.call('HINCRBY', KEYS[1], 'remain', -ARGV[1])
`;

/** The same, once for an id: the record that this module keeps, in one hash beside the quota that ends with its period. */
const TAKE_ONCE = `
local record = redis.call('HGET', KEYS[2], ARGV[2])
if record then return record end
local left = tonumber(redis.call('HGET', KEYS[1], 'remain'))
if not left or left < tonumber(ARGV[1]) then return -1 end
left = redis.call('HINCRBY', KEYS[1], 'remain', -ARGV[1])
redis.call('HSET', KEYS[2], ARGV[2], 'done:' .. ARGV[1] .. ':' .. left)
redis.call('PEXPIRE', KEYS[2], 86400000)
return left
`;

/**
 * One EVALSHA per call.
 *
 * @param {{ record?: boolean, autoPipelining?: boolean }} [options]
 * @returns {(url: string) => Promise<import('./quota-session.mjs').QuotaSession>}
 */
export function rawScript({ record = false, autoPipelining = false } = {}) {
  return async (url) => {
    const client = new Redis(url, { enableAutoPipelining: autoPipelining });
    const lua = record ? TAKE_ONCE : TAKE;
    const sha = createHash('sha1').update(lua).digest('hex');
    await client.script('LOAD', lua);
    return {
      prepare: (key, amount) => client.hset(key, 'remain', amount),
      async take(key, id) {
        const left = await (record
          ? client.evalsha(sha, 2, key, `{${key}}:ops`, 1, `deduct:${id}`)
          : client.evalsha(sha, 1, key, 1));
        if (Number(left) < 0) throw new Error(`${key} has nothing left.`);
      },
      remaining: async (key) => Number(await client.hget(key, 'remain')),
      close: () => client.disconnect(),
    };
  };
}

/** A connection each for so many calls at a time; more would be refused by Postgres' default of 100. */
const POSTGRES_CONNECTIONS = 16;

/**
 * `SELECT … FOR UPDATE`, `UPDATE`, and the operation's row with its unique id, in one transaction.
 *
 * @param {string} url of Postgres
 * @returns {Promise<import('./quota-session.mjs').QuotaSession>}
 */
export async function openForUpdate(url) {
  const pool = new Pool({ connectionString: url, max: POSTGRES_CONNECTIONS });
  // the server ends before this process does
  pool.on('error', () => undefined);
  return {
    prepare: (key, amount) =>
      pool.query('INSERT INTO quota (key, remain) VALUES ($1, $2) ON CONFLICT DO NOTHING', [key, amount]),
    async take(key, id) {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        const { rows } = await client.query('SELECT remain FROM quota WHERE key = $1 FOR UPDATE', [key]);
        if (Number(rows[0]?.remain) < 1) throw new Error(`${key} has nothing left.`);
        await client.query('UPDATE quota SET remain = remain - 1 WHERE key = $1', [key]);
        await client.query('INSERT INTO operation (id, amount) VALUES ($1, 1)', [id]);
        await client.query('COMMIT');
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      } finally {
        client.release();
      }
    },
    async remaining(key) {
      const { rows } = await pool.query('SELECT remain FROM quota WHERE key = $1', [key]);
      return Number(rows[0]?.remain);
    },
    close: () => pool.end(),
  };
}
