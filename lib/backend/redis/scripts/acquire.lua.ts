import { FENCE_BLOCK } from '../../backend.js';
import { passingScript } from './lock-prelude.lua.js';

/**
 * Takes a lock that is free and that nobody waits for, and reserves its fencing tokens, in one round trip. A
 * free lock that others wait for is passed on to the first of them.
 *
 * KEYS[1] the lock (L) · KEYS[2] its queue · KEYS[3] its fence
 * ARGV[1] token · ARGV[2] lease in ms · ARGV[3] the fence's life in ms · ARGV[4] '1' queues a token that must wait
 * Answers granted: {first fencing token, time}, or one integer that is both; busy: {-2 minus what is left of the holder's lease in ms (-1 for a holder's key without expiry), time}.
 */
export const acquireScript = passingScript(
  `
local function granted(fresh)
  local first, now, fault = reserve(ARGV[3])
  if fault then
    if fresh then redis.call('DEL', KEYS[1]) end
    return fault
  end
  return {first, now}
end
local holder = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
if holder == ARGV[1] then
  -- our own earlier try, resent, or a lease that was passed on to us: its life is raised, never lowered
  if left >= 0 and left < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return granted(false)
end
if not holder then
  local outcome, fault = pass(ARGV[3], ARGV[1])
  if outcome == 'failed' then return fault end
  if outcome == 'mine' or outcome == 'empty' then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return granted(true)
  end
  if outcome == 'dead' then redis.call('DEL', KEYS[1]) end
  left = math.max(redis.call('PTTL', KEYS[1]), 0)
end
local now = microseconds()
if ARGV[4] == '1' then queue(ARGV[1], now) end
return {-2 - left, now}
`,
  `
if redis.call('EXISTS', KEYS[2]) == 0 and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local last = redis.pcall('SET', KEYS[3], string.format('%.0f', now + ${FENCE_BLOCK - 1}), 'PX', ARGV[3], 'GET')
  if type(last) == 'table' then
    -- the fence cannot be kept: nothing may be left behind
    redis.call('DEL', KEYS[1])
    return last
  end
  last = tonumber(last or 0) or 0
  -- one integer is the cheapest answer
  if last < now then return now end
  redis.call('SET', KEYS[3], string.format('%.0f', last + ${FENCE_BLOCK}), 'PX', ARGV[3])
  return {last + 1, now}
end
`,
);
