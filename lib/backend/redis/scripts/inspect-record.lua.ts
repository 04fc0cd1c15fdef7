import { script } from '../script.js';
import { recordPrelude } from './record-prelude.lua.js';

/**
 * Shows one idempotency record at one moment.
 *
 * KEYS[1] the record
 * Answers nil when there is none, else {0, attempt, ms of lease left} pending · {1, attempt, payload} done.
 */
export const inspectRecordScript = script(`${recordPrelude}
local record = read()
if not record then return false end
if record.state == 'done' then return {1, record.attempt, payload(record)} end
return {0, record.attempt, math.max(record.lease - now(), 0)}
`);
