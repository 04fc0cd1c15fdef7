import { FENCE_BLOCK } from '../../backend.js';
import { script } from '../script.js';

/**
 * Takes all of several locks or none. Everything is read before anything is written, so that a wrong type
 * leaves nothing half done.
 *
 * KEYS[1..n] the locks · KEYS[n+1..2n] their fences · KEYS[2n+1..3n] their queues
 * ARGV, three for each: token · lease in ms · the fence's life in ms
 * Answers {0, first fencing token, time} granted, and every fence is raised to its block; {i, ms left, time} the
 * i-th lock is busy (-1: without expiry; 0: free, but others wait for it).
 */
export const acquireAllScript = script(`
local n = #KEYS / 3
local fresh = {}
local highest = 0
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local awaited = redis.call('EXISTS', unpack(KEYS, 2 * n + 1, 3 * n)) > 0
for i = 1, n do
  local holder = redis.call('GET', KEYS[i])
  fresh[i] = not holder
  if holder and holder ~= ARGV[3 * i - 2] then return {i, redis.call('PTTL', KEYS[i]), now} end
  if awaited and fresh[i] and redis.call('EXISTS', KEYS[2 * n + i]) == 1 then return {i, 0, now} end
  highest = math.max(highest, tonumber(redis.call('GET', KEYS[n + i]) or 0) or 0)
end
local first = math.max(now, highest + 1)
local text = string.format('%.0f', first + ${FENCE_BLOCK - 1})
for i = 1, n do
  local lease = ARGV[3 * i - 1]
  if fresh[i] then
    redis.call('SET', KEYS[i], ARGV[3 * i - 2], 'PX', lease)
  else
    local left = redis.call('PTTL', KEYS[i])
    if left >= 0 and left < tonumber(lease) then redis.call('PEXPIRE', KEYS[i], lease) end
  end
  redis.call('SET', KEYS[n + i], text, 'PX', ARGV[3 * i])
end
return {0, first, now}
`);
