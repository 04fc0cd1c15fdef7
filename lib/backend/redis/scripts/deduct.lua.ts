import { script } from '../script.js';
import { quotaPrelude } from './quota-prelude.lua.js';

/**
 * Checks and takes, once per operation.
 *
 * KEYS, ARGV: see quota-prelude.lua.ts
 * Answers {1, amount, remaining} granted · {2, amount, remaining} granted before · {0, remaining} not enough ·
 * {-1} no such quota · {-2} 'remain' is no integer · {-3, TIME in ms} ask again with the right period ·
 * {-4, amount} the operation took another amount · {-5, amount} the operation is refunded.
 */
export const deductScript = script(`${quotaPrelude}
local amount = tonumber(ARGV[4])
local _, state, taken, left = find()
if state then
  if taken ~= amount then return {-4, integer(taken)} end
  if state == 'refunded' then return {-5, integer(taken)} end
  return {2, integer(taken), integer(left)}
end
local before = remain()
if before == false then return {-1} end
if not before then return {-2} end
if before < amount then return {0, integer(before)} end
redis.call('HINCRBY', quota, 'remain', '-' .. ARGV[4])
record(amount, before - amount)
return {1, ARGV[4], integer(before - amount)}
`);
