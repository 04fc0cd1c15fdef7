import { FENCE_BLOCK } from '../../backend.js';
import { script } from '../script.js';

/**
 * Raises fences, never lowers them. With a fencing token the block that begins with it is reserved.
 *
 * KEYS the fences
 * ARGV, two for each: fencing token · the fence's life in ms
 * Answers 1.
 */
export const raiseFenceScript = script(`
for i = 1, #KEYS do
  local last = tonumber(redis.call('GET', KEYS[i]) or 0) or 0
  local reserved = ARGV[2 * i - 1] + ${FENCE_BLOCK - 1}
  if last < reserved then
    redis.call('SET', KEYS[i], string.format('%.0f', reserved), 'PX', ARGV[2 * i])
  else
    redis.call('PEXPIRE', KEYS[i], ARGV[2 * i])
  end
end
return 1
`);
