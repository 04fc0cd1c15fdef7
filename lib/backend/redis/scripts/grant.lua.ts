import { script } from '../script.js';
import { quotaPrelude } from './quota-prelude.lua.js';

/**
 * Adds to a quota, and creates it where there is none; once per operation.
 *
 * KEYS, ARGV: see quota-prelude.lua.ts
 * Answers {1, amount, remaining} granted · {2, amount, remaining} granted before · {-2} 'remain' is no integer ·
 * {-3, TIME in ms} ask again with the right period · {-4, amount} the operation added another amount ·
 * {-6, remaining} the sum would be no safe integer.
 */
export const grantScript = script(`${quotaPrelude}
local amount = tonumber(ARGV[4])
local _, state, added, left = find()
if state then
  if added ~= amount then return {-4, integer(added)} end
  return {2, integer(added), integer(left)}
end
local before = remain()
if before == nil then return {-2} end
before = before or 0
-- subtracted, not added: the sum may be no exact number
if before > LARGEST - amount then return {-6, integer(before)} end
redis.call('HINCRBY', quota, 'remain', ARGV[4])
record(amount, before + amount)
return {1, ARGV[4], integer(before + amount)}
`);
