import { passingScript } from './lock-prelude.lua.js';

/**
 * Takes a lock from whoever holds it, tells its process, and passes it on; another type of value under its name
 * is no lock and stays (WRONGTYPE).
 *
 * KEYS[1] the lock · KEYS[2] its queue · KEYS[3] its fence
 * ARGV[1] the fence's least life in ms
 * Answers 1 taken away, 0 it was free.
 */
export const forceReleaseScript = passingScript(`
local holder = redis.call('GET', KEYS[1])
if not holder then return 0 end
-- anything else is no token of this module, and has no inbox
if #holder == 36 then tell(holder, 0, microseconds()) end
local life = math.max(redis.call('PTTL', KEYS[3]), tonumber(ARGV[1]))
if pass(life) ~= 'passed' then redis.call('DEL', KEYS[1]) end
return 1
`);
