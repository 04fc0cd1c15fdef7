import { script } from '../script.js';

/**
 * Shows one lock at one moment.
 *
 * KEYS[1] the lock · KEYS[2] its fence · KEYS[3] its queue
 * Answers nil when it is free, else {token, ms left (-1: without expiry), fencing token or '', waiting}.
 */
export const inspectScript = script(`
local holder = redis.call('GET', KEYS[1])
if not holder then return false end
return {holder, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) or '', redis.call('ZCARD', KEYS[3])}
`);
