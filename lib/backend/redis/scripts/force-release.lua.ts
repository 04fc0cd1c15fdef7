import { script } from '../script.js';

/**
 * Deletes a lock whoever holds it; another type of value under its name is no lock and stays (WRONGTYPE).
 *
 * KEYS[1] the lock
 * Answers 1 deleted, 0 it was free.
 */
export const forceReleaseScript = script(`
if not redis.call('GET', KEYS[1]) then return 0 end
return redis.call('DEL', KEYS[1])
`);
