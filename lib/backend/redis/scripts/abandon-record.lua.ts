import { script } from '../script.js';
import { recordPrelude, tellWaiting } from './record-prelude.lua.js';

/**
 * Gives up a begin whose answer never came: its lease ends now and its attempt is taken back, so attempt 2 always
 * means that attempt 1 ran. The owner is cleared: a resent abandon finds nothing to do.
 *
 * KEYS[1] the record
 * ARGV[1] owner · ARGV[2] the record's life in ms
 * Answers 1 given up · 0 nothing of this owner's pending.
 */
export const abandonRecordScript = script(`${recordPrelude}${tellWaiting}
local record = read()
if not record or record.owner ~= ARGV[1] or record.state ~= 'pending' then return 0 end
tellWaiting()
if record.attempt <= 1 then
  redis.call('DEL', key)
else
  redis.call('HSET', key, 'owner', '', 'lease', integer(now()), 'attempt', integer(record.attempt - 1))
  live(ARGV[2])
end
return 1
`);
