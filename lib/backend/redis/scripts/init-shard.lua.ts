import { script } from '../script.js';
import { quotaPrelude } from './quota-prelude.lua.js';

/**
 * Adds a shard's share of a new quota, once: the plan that did it stays in the field 'plan'.
 *
 * KEYS[1] the shard
 * ARGV[1] the plan · ARGV[2] the share
 * Answers {1, the plan that stands} · {-2} 'remain' is no integer · {-6} the sum would be no safe integer.
 */
export const initShardScript = script(`${quotaPrelude}
local plan = redis.call('HGET', quota, 'plan')
if plan then return {1, plan} end
local before, share = remain(), tonumber(ARGV[2])
if before == nil then return {-2} end
-- a grant may have come first: the share is added to it
if (before or 0) > LARGEST - share then return {-6} end
redis.call('HSET', quota, 'plan', ARGV[1], 'remain', integer((before or 0) + share))
redis.call('HINCRBY', quota, 'version', 1)
return {1, ARGV[1]}
`);
