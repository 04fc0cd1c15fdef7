import { script } from '../script.js';
import { operationsPrelude } from './quota-prelude.lua.js';

/**
 * Takes what a shard has, up to what is wanted, for an operation that is gathered from several; once per generation.
 *
 * KEYS, ARGV[1..2]: see quota-prelude.lua.ts
 * ARGV[3] field · ARGV[4] generation · ARGV[5] how much is wanted
 * Answers {1, how much it holds here now} · {0} this generation is refused · {-2} 'remain' is no integer ·
 * {-3, TIME in ms} ask again with the right period.
 */
export const takePartScript = script(`${operationsPrelude}
local field, generation = ARGV[3], tonumber(ARGV[4])
local left = remain()
local record, at = find(field)
if record then
  local holder, had = string.match(record, '^part:(%d+):(%d+)$')
  if holder and tonumber(holder) == generation then return {1, had} end
  local refused = tonumber(string.match(record, '^no:(%d+)$'))
  if not refused or generation <= refused then return {0} end
end
if left == nil then return {-2} end
local part = math.min(tonumber(ARGV[5]), math.max(left or 0, 0))
if part > 0 then
  redis.call('HINCRBY', quota, 'remain', '-' .. integer(part))
  put(field, 'part:' .. ARGV[4] .. ':' .. integer(part), at)
end
return {1, integer(part)}
`);
