import { script } from '../script.js';
import { operationsPrelude } from './quota-prelude.lua.js';

/**
 * Takes the whole amount at a shard that is not, or not only, the operation's home. What it refuses it remembers, as
 * 'no:<generation>': a late copy, or a process that read the operation's place long ago, is refused too, although
 * there may be enough by then.
 *
 * KEYS, ARGV[1..2]: see quota-prelude.lua.ts
 * ARGV[3] field · ARGV[4] generation · ARGV[5] amount
 * Answers {1, amount, remaining} granted · {2, amount, remaining} granted before · {0, remaining} refused ·
 * {-2} 'remain' is no integer · {-3, TIME in ms} ask again with the right period · {-4, amount} the operation took
 * another amount · {-5, amount} it is refunded.
 */
export const deductAtScript = script(`${operationsPrelude}
local field, generation, amount = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local left = remain()
local record, at = find(field)
if record then
  local state, had, remaining = read(record)
  if state == 'done' or state == 'refunded' then
    if had ~= amount then return {-4, integer(had)} end
    if state == 'refunded' then return {-5, integer(had)} end
    return {2, integer(had), remaining}
  end
  local refused = tonumber(string.match(record, '^no:(%d+)$'))
  if not refused or generation <= refused then return {0, integer(left or 0)} end
end
if left == nil then return {-2} end
if not left or left < amount then
  put(field, 'no:' .. ARGV[4], at)
  return {0, integer(left or 0)}
end
redis.call('HINCRBY', quota, 'remain', '-' .. ARGV[5])
put(field, 'done:' .. ARGV[5] .. ':' .. integer(left - amount), at)
return {1, ARGV[5], integer(left - amount)}
`);
