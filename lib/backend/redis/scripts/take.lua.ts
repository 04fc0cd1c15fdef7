import { script } from '../script.js';
import { quotaPrelude } from './quota-prelude.lua.js';

/** How long a sender's last batch is known. */
export const BATCH_LIFE_MS = 120_000;

/**
 * Deductions without operation ids, one or many: the hottest path. The answers follow from the number that stood
 * there before, so that number is all that is kept and told.
 *
 * KEYS[1] the quota · KEYS[2] the sender's last batch: '<number> <before>', or other text behind the number
 * ARGV[1] the batch's number · ARGV[2] the amounts' sum, at most 2^53 · ARGV[3] the amounts, apart by spaces, when
 * there are several
 * Answers the number before, as text: done · {2, before} done before · {-1} no such quota · {-2} 'remain' is no
 * integer · {-7} a later batch came first.
 */
export const takeScript = script(`${quotaPrelude}
local before = remain()
local taken = before and tonumber(ARGV[2]) or 0
if before and before < taken then
  taken = 0
  for text in string.gmatch(ARGV[3] or '', '%d+') do
    local amount = tonumber(text)
    if before - taken >= amount then taken = taken + amount end
  end
end

local last
if taken > 0 then
  -- written at once and put back in the rare case: one command for both, and an expiry
  last = redis.call('SET', KEYS[2], ARGV[1] .. ' ' .. integer(before), 'PX', ${BATCH_LIFE_MS}, 'GET')
else
  last = redis.call('GET', KEYS[2])
end
if last then
  local number, own = tonumber(string.match(last, '^%d+')), tonumber(ARGV[1])
  if number >= own then
    if taken > 0 then redis.call('SET', KEYS[2], last, 'PX', ${BATCH_LIFE_MS}) end
    if number > own then return {-7} end
    return {2, string.match(last, ' (.+)$')}
  end
end
if before == false then return {-1} end
if not before then return {-2} end
if taken > 0 then redis.call('HINCRBY', quota, 'remain', '-' .. integer(taken)) end
return integer(before)
`);
