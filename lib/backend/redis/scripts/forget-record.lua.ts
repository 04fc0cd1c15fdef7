import { script } from '../script.js';
import { tellWaiting } from './record-prelude.lua.js';

/**
 * Deletes an idempotency record and tells who waits for it; another type of value under its name stays (WRONGTYPE).
 *
 * KEYS[1] the record
 * Answers 1 deleted, 0 there was none.
 */
export const forgetRecordScript = script(`
local key = KEYS[1]
${tellWaiting}
tellWaiting()
return redis.call('DEL', key)
`);
