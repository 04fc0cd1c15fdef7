import { script } from '../script.js';
import { recordPrelude, tellWaiting } from './record-prelude.lua.js';

/**
 * Stores the outcome of an owner's run, and tells who waits for it; a record that was evicted is written again.
 *
 * KEYS[1] the record
 * ARGV[1] owner · ARGV[2] the record's life in ms · ARGV[3] fingerprint, '' for none · ARGV[4] attempt ·
 * ARGV[5] payload
 * Answers {1} stored · {2} stored before, by this owner · {3} written again · {0} another owner runs ·
 * {-1, payload} another owner finished.
 */
export const completeScript = script(`${recordPrelude}${tellWaiting}
local owner, life = ARGV[1], ARGV[2]
local record = read()
if record and record.owner ~= owner then
  if record.state == 'done' then return {-1, payload(record)} end
  return {0}
end
if record and record.state == 'done' then return {2} end
if record then
  tellWaiting()
  redis.call('HSET', key, 'state', 'done', 'lease', '0', 'payload', ARGV[5])
  live(life)
  return {1}
end
redis.call('HSET', key, 'state', 'done', 'owner', owner, 'lease', '0', 'attempt', ARGV[4], 'fingerprint', ARGV[3],
  'created', integer(now()), 'payload', ARGV[5])
redis.call('PEXPIRE', key, life)
return {3}
`);
