import { script } from '../script.js';
import { quotaPrelude } from './quota-prelude.lua.js';

/** How long a sender's last batch is known: written once per sender and period, so twice what is promised. */
export const CALLS_LIFE_MS = 240_000;

/**
 * Deductions without operation ids, one or many: the hottest path. The answers follow from the number that stood
 * there before, so that number is all that is kept and told.
 *
 * KEYS[1] the quota · KEYS[2] the senders' last batches
 * ARGV[1] the sender · ARGV[2] the batch's number · ARGV[3] the amounts' sum, at most 2^53 · ARGV[4] the amounts, apart
 * by spaces; empty when there is one
 * Answers {1, before} done · {2, before} done before · {-1} no such quota · {-2} 'remain' is no integer ·
 * {-7} a later batch came first.
 */
export const takeScript = script(`${quotaPrelude}
local last = redis.call('HGET', KEYS[2], ARGV[1])
if last then
  local number, own = tonumber(string.match(last, '^%d+')), tonumber(ARGV[2])
  if number > own then return {-7} end
  if number == own then return {2, string.match(last, ' (.+)$')} end
end
local before = remain()
if before == false then return {-1} end
if not before then return {-2} end
local taken = tonumber(ARGV[3])
if before < taken then
  taken = 0
  for text in string.gmatch(ARGV[4], '%d+') do
    local amount = tonumber(text)
    if before - taken >= amount then taken = taken + amount end
  end
end
if taken > 0 then
  redis.call('HINCRBY', quota, 'remain', '-' .. integer(taken))
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. ' ' .. integer(before))
  if not last then redis.call('PEXPIRE', KEYS[2], ${CALLS_LIFE_MS}) end
end
return {1, integer(before)}
`);
