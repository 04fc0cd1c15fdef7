import { script } from '../script.js';

/**
 * Compare-and-expire for many locks at once: never creates one, never touches a stranger's, never shortens a
 * life. The fences' lives are refreshed with them.
 *
 * KEYS, two for each: the lock · its fence
 * ARGV, three for each: token · lease in ms · the fence's life in ms
 * Answers a list, one integer for each: 1 extended, 0 gone, -1 somebody else's (also: another type of value).
 */
export const extendScript = script(`
local answers = {}
for i = 1, #KEYS / 2 do
  local lock, token, lease = KEYS[2 * i - 1], ARGV[3 * i - 2], ARGV[3 * i - 1]
  local holder = redis.pcall('GET', lock)
  if not holder then
    answers[i] = 0
  elseif holder ~= token then
    answers[i] = -1
  else
    local left = redis.call('PTTL', lock)
    if left >= 0 and left < tonumber(lease) then redis.call('PEXPIRE', lock, lease) end
    redis.call('PEXPIRE', KEYS[2 * i], ARGV[3 * i])
    answers[i] = 1
  end
end
return answers
`);
