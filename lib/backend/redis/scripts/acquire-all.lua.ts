import { script } from '../script.js';

/**
 * Takes all of several locks or none. Everything is read before anything is written, so that a wrong type
 * leaves nothing half done.
 *
 * KEYS[1..n] the locks · KEYS[n+1..2n] their fences
 * ARGV, three for each: token · lease in ms · the fence's life in ms
 * Answers {0, fencing token} granted, and every fence is raised to it; {i, ms left} the i-th lock is busy
 * (-1: without expiry).
 */
export const acquireAllScript = script(`
local n = #KEYS / 2
local fresh = {}
local highest = 0
for i = 1, n do
  local holder = redis.call('GET', KEYS[i])
  fresh[i] = not holder
  if holder and holder ~= ARGV[3 * i - 2] then return {i, redis.call('PTTL', KEYS[i])} end
  highest = math.max(highest, tonumber(redis.call('GET', KEYS[n + i]) or 0) or 0)
end
local time = redis.call('TIME')
local fence = math.max(time[1] * 1000000 + time[2], highest + 1)
local text = string.format('%.0f', fence)
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
return {0, fence}
`);
