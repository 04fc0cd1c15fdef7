import { script } from '../script.js';

/**
 * Compare-and-delete, or, for a lock that must stay a little longer (minHold), compare-and-expire. Also what
 * takes back an acquire whose answer never came.
 *
 * KEYS[1] the lock
 * ARGV[1] token · ARGV[2] how long the key stays, in ms; 0 deletes it
 * Answers 1 released, 0 gone, -1 somebody else's (also: another type of value).
 */
export const releaseScript = script(`
local holder = redis.pcall('GET', KEYS[1])
if not holder then return 0 end
if holder ~= ARGV[1] then return -1 end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
`);
