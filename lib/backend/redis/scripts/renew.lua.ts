import { script } from '../script.js';
import { recordPrelude } from './record-prelude.lua.js';

/**
 * Renews the lease of an owner's run; a record that was evicted is written again.
 *
 * KEYS[1] the record
 * ARGV[1] owner · ARGV[2] lease in ms · ARGV[3] the record's life in ms · ARGV[4] fingerprint, '' for none ·
 * ARGV[5] attempt
 * Answers 1 renewed (or this owner's, done) · 2 written again · 0 another owner's.
 */
export const renewScript = script(`${recordPrelude}
local owner, lease, life = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local time = now()
local record = read()
if not record then
  redis.call('HSET', key, 'state', 'pending', 'owner', owner, 'lease', integer(time + lease), 'attempt', ARGV[5],
    'fingerprint', ARGV[4], 'created', integer(time))
  redis.call('PEXPIRE', key, life)
  return 2
end
if record.owner ~= owner then return 0 end
if record.state == 'pending' then
  redis.call('HSET', key, 'lease', integer(time + lease))
  live(life)
end
return 1
`);
