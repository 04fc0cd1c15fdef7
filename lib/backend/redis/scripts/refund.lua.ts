import { script } from '../script.js';
import { quotaPrelude } from './quota-prelude.lua.js';

/**
 * Gives back what one operation took, once. The operation's record says so from then on.
 *
 * KEYS, ARGV (without the amount): see quota-prelude.lua.ts
 * Answers {1, amount, remaining} given back · {2, amount, remaining} given back before · {0} no such operation ·
 * {-1} the quota is gone · {-2} 'remain' is no integer · {-3, TIME in ms} ask again with the right period ·
 * {-6, remaining} the sum would be no safe integer.
 */
export const refundScript = script(`${quotaPrelude}
local kept, state, amount, left = find()
if not state then return {0} end
if state == 'refunded' then return {2, integer(amount), integer(left)} end
local before = remain()
if before == false then return {-1} end
if not before then return {-2} end
if before > LARGEST - amount then return {-6, integer(before)} end
redis.call('HINCRBY', quota, 'remain', integer(amount))
redis.call('HSET', kept, field, 'refunded:' .. integer(amount) .. ':' .. integer(before + amount))
return {1, integer(amount), integer(before + amount)}
`);
