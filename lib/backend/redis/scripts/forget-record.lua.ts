import { script } from '../script.js';

/**
 * Deletes an idempotency record; another type of value under its name stays (WRONGTYPE).
 *
 * KEYS[1] the record
 * Answers 1 deleted, 0 there was none.
 */
export const forgetRecordScript = script(`
redis.call('HLEN', KEYS[1])
return redis.call('DEL', KEYS[1])
`);
