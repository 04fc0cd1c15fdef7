import { script } from '../script.js';
import { operationsPrelude } from './quota-prelude.lua.js';

/**
 * Deductions that all have operation ids, one or many. The answers follow from the number that stood there before and
 * from the records that were found, so those are all that is told.
 *
 * KEYS[1..4], ARGV[1..2]: see quota-prelude.lua.ts
 * ARGV[3] the amounts, apart by spaces; one for all when they are the same · then the operations' fields
 * Answers {1, before, then for each operation that was known: its place, counted from 1, and its record}, before empty
 * where there is no such quota, and 'x' where 'remain' is no integer · {-3, TIME in ms} ask again with the right period.
 */
export const takeOnceScript = script(`${operationsPrelude}
local n = #ARGV - 3
local found = redis.call('HMGET', KEYS[here], unpack(ARGV, 4))
local older = here == 3 and 4 or 3
if redis.call('EXISTS', KEYS[2], KEYS[older]) > 0 then
  for _, i in ipairs({2, older}) do
    local others = redis.call('HMGET', KEYS[i], unpack(ARGV, 4))
    for j = 1, n do found[j] = found[j] or others[j] end
  end
end

local before = remain()
local left = before or -1
local amounts
local amount, text = tonumber(ARGV[3]), 'done:' .. ARGV[3] .. ':'
if not amount then amounts = string.gmatch(ARGV[3], '%d+') end
-- as it is, a number up to 14 digits becomes its digits
local short = left < 1e14

local answer, changed, k, taken = {1, before and integer(before) or before == nil and 'x' or ''}, {}, 0, {}
for j = 1, n do
  local field = ARGV[j + 3]
  if amounts then
    local next = amounts()
    amount, text = tonumber(next), 'done:' .. next .. ':'
  end
  -- known from before, or from this batch
  local record = found[j] or taken[field]
  if record then
    answer[#answer + 1] = j
    answer[#answer + 1] = record
  elseif left >= amount then
    left = left - amount
    record = text .. (short and left or integer(left))
    changed[k + 1], changed[k + 2] = field, record
    k = k + 2
    taken[field] = record
  end
end
if k > 0 then
  redis.call('HSET', quota, 'remain', integer(left))
  redis.call('HSET', KEYS[here], unpack(changed))
  redis.call('PEXPIREAT', KEYS[here], integer((current + 2) * period))
end
return answer
`);
