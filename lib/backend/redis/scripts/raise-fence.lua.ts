import { script } from '../script.js';

/**
 * Raises fences, never lowers them.
 *
 * KEYS the fences
 * ARGV, two for each: fencing token · the fence's life in ms
 * Answers 1.
 */
export const raiseFenceScript = script(`
for i = 1, #KEYS do
  local last = tonumber(redis.call('GET', KEYS[i]) or 0) or 0
  if last < tonumber(ARGV[2 * i - 1]) then
    redis.call('SET', KEYS[i], ARGV[2 * i - 1], 'PX', ARGV[2 * i])
  else
    redis.call('PEXPIRE', KEYS[i], ARGV[2 * i])
  end
end
return 1
`);
