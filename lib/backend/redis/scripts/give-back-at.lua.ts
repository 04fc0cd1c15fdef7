import { script } from '../script.js';
import { operationsPrelude } from './quota-prelude.lua.js';

/**
 * Gives back what an operation holds at a shard, once: all of it, when it was granted there, or its part. Where it
 * holds nothing, this generation and lower are refused from now on.
 *
 * KEYS, ARGV[1..2]: see quota-prelude.lua.ts
 * ARGV[3] field · ARGV[4] generation
 * Answers {1, amount, remaining} given back · {2, amount, remaining} given back before · {3, amount} a part given
 * back · {0} nothing · {-2} 'remain' is no integer · {-3, TIME in ms} ask again with the right period ·
 * {-6} the sum would be no safe integer.
 */
export const giveBackAtScript = script(`${operationsPrelude}
local field, generation = ARGV[3], tonumber(ARGV[4])
local record, at = find(field)
local state, first, second
if record then
  state, first, second = read(record)
  if state == 'refunded' then return {2, integer(first), second} end
end

local refuse = generation
if state == 'part' then refuse = math.max(refuse, first) end
local refused = record and tonumber(string.match(record, '^no:(%d+)$'))
if refused then refuse = math.max(refuse, refused) end
if state ~= 'done' and state ~= 'part' then
  if refuse ~= refused then put(field, 'no:' .. integer(refuse), at) end
  return {0}
end

local amount = state == 'done' and first or tonumber(second)
local left = remain()
if left == nil then return {-2} end
if (left or 0) > LARGEST - amount then return {-6} end
redis.call('HINCRBY', quota, 'remain', integer(amount))
redis.call('HINCRBY', quota, 'version', 1)
left = (left or 0) + amount
if state == 'part' then
  put(field, 'no:' .. integer(refuse), at)
  return {3, integer(amount)}
end
put(field, 'refunded:' .. integer(amount) .. ':' .. integer(left), at)
return {1, integer(amount), integer(left)}
`);
