import { FENCE_BLOCK } from '../../backend.js';
import { script } from '../script.js';

/**
 * Takes and gives back many locks at once, each as if alone. Only what is simple: a lock that is free and that
 * nobody waits for, or that another holds, and one of ours that nobody waits for; anything else is to be asked
 * alone, and is left as it is.
 *
 * KEYS[1..a] the locks to take · KEYS[a+1..2a] their fences · then r locks to give back · then a + r queues
 * ARGV[1] a · ARGV[2] lease in ms · ARGV[3] the fences' life in ms · then a + r tokens
 * Answers {time, then for each to take: 0 granted, its first fencing token is the time; above 0 granted, its
 * first fencing token; -1 to be asked alone; below that busy, and -3 minus what is left of the holder's lease in ms
 * (-1 for a holder's key without expiry) · then for each to give back: 1 released, -1 somebody else's, -2 to
 * be asked alone}.
 */
export const manyScript = script(`
local a, lease, life = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local r = #ARGV - 3 - a
local queues = 2 * a + r
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local reserved = string.format('%.0f', now + ${FENCE_BLOCK - 1})
local answers = {now}
local awaited = redis.call('EXISTS', unpack(KEYS, queues + 1)) > 0
local function isAwaited(i)
  return awaited and redis.call('EXISTS', KEYS[queues + i]) == 1
end
for i = 1, a do
  answers[1 + i] = -1
  local set = not isAwaited(i) and redis.pcall('SET', KEYS[i], ARGV[3 + i], 'NX', 'PX', lease)
  if set and set.ok then
    local fence = KEYS[a + i]
    local last = redis.pcall('SET', fence, reserved, 'PX', life, 'GET')
    if type(last) == 'table' then
      redis.call('DEL', KEYS[i])
    elseif (tonumber(last or 0) or 0) < now then
      answers[1 + i] = 0
    else
      local first = last + 1
      redis.call('SET', fence, string.format('%.0f', first + ${FENCE_BLOCK - 1}), 'PX', life)
      answers[1 + i] = first
    end
  else
    local holder = redis.pcall('GET', KEYS[i])
    if type(holder) == 'string' and holder ~= ARGV[3 + i] then
      answers[1 + i] = -3 - redis.call('PTTL', KEYS[i])
    end
  end
end
if r > 0 then
  -- another type of value reads as none here: asked alone, it is told apart
  local holders = redis.call('MGET', unpack(KEYS, 2 * a + 1, 2 * a + r))
  local released = {}
  for i = 1, r do
    local holder = holders[i]
    if not holder or isAwaited(a + i) then
      answers[1 + a + i] = -2
    elseif holder ~= ARGV[3 + a + i] then
      answers[1 + a + i] = -1
    else
      answers[1 + a + i] = 1
      released[#released + 1] = KEYS[2 * a + i]
    end
  end
  if #released > 0 then redis.call('DEL', unpack(released)) end
end
return answers
`);
