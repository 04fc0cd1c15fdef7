import { script } from '../script.js';
import { recordPrelude, tellWaiting } from './record-prelude.lua.js';

/**
 * Frees the key of a run that failed: its record goes, and who waits for it is told.
 *
 * KEYS[1] the record
 * ARGV[1] owner
 * Answers 1 freed · 0 gone · -1 another owner's, or done.
 */
export const releaseRecordScript = script(`${recordPrelude}${tellWaiting}
local record = read()
if not record then return 0 end
if record.owner ~= ARGV[1] or record.state ~= 'pending' then return -1 end
tellWaiting()
redis.call('DEL', key)
return 1
`);
