import { script } from '../script.js';

/**
 * Takes a free lock and makes its fencing token, in one round trip.
 *
 * KEYS[1] the lock (L) · KEYS[2] its fence
 * ARGV[1] token · ARGV[2] lease in ms · ARGV[3] the fence's life in ms
 * Answers one integer: above 0, granted, and it is the fencing token; else busy, and it is -2 minus what
 * is left of the holder's lease in ms (-1 for a holder's key without expiry).
 */
export const acquireScript = script(`
local fresh = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if not fresh then
  local holder = redis.call('GET', KEYS[1])
  local left = redis.call('PTTL', KEYS[1])
  if holder ~= ARGV[1] then return -2 - left end
  -- our own earlier try, resent: its life is raised, never lowered
  if left >= 0 and left < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
end
local time = redis.call('TIME')
local fence = time[1] * 1000000 + time[2]
local last = redis.pcall('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[3], 'GET')
if type(last) == 'table' then
  -- the fence cannot be kept: nothing may be left behind
  if fresh then redis.call('DEL', KEYS[1]) end
  return last
end
last = tonumber(last or 0) or 0
if last >= fence then
  fence = last + 1
  redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[3])
end
return fence
`);
