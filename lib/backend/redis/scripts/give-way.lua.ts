import { passingScript } from './lock-prelude.lua.js';

/**
 * Gives a lock back for a process that has more who wait: passes it on and queues the process's next token behind
 * the others, or, when nobody else waits, goes on under the next token. Not under the old one: a late copy of an
 * unanswered give-way would take the lock away.
 *
 * KEYS[1] the lock · KEYS[2] its queue · KEYS[3] its fence
 * ARGV[1] token · ARGV[2] the fence's life in ms · ARGV[3] next token · ARGV[4] lease in ms
 * Answers {1, time} passed on, {2, first fencing token, time} kept, {0} gone, {-1} somebody else's (also:
 * another type of value).
 */
export const giveWayScript = passingScript(`
local holder = redis.pcall('GET', KEYS[1])
if not holder then return {0} end
if holder == ARGV[3] then
  -- resent: it was kept, or the lock came back meanwhile
  local left = redis.call('PTTL', KEYS[1])
  if left >= 0 and left < tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
elseif holder ~= ARGV[1] then
  return {-1}
else
  local outcome, now = pass(ARGV[2])
  if outcome == 'passed' then
    queue(ARGV[3], now)
    return {1, now}
  end
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
end
local first, now, fault = reserve(ARGV[2])
if fault then
  -- without fencing tokens nobody may go on: those who wait ask, and are told why
  redis.call('DEL', KEYS[1])
  return {1, now}
end
return {2, first, now}
`);
