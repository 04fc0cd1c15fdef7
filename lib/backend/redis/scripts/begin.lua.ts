import { script } from '../script.js';
import { noteWaiting, recordPrelude } from './record-prelude.lua.js';

/**
 * Begins a run under an idempotency key, or says why not.
 *
 * KEYS[1] the record
 * ARGV[1] owner · ARGV[2] lease in ms · ARGV[3] the record's life in ms · ARGV[4] fingerprint, '' for none ·
 * ARGV[5] the inbox to tell when a busy record ends; absent for none
 * Answers {1, attempt} new (also this owner's own, resent) · {2, attempt} taken over · {3, attempt, payload}
 * done · {4, attempt, ms of lease left} busy · {5} other request.
 */
export const beginScript = script(`${recordPrelude}${noteWaiting}
local owner, lease, life, fingerprint = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local time = now()
local record = read()
if not record then
  redis.call('HSET', key, 'state', 'pending', 'owner', owner, 'lease', integer(time + lease), 'attempt', '1',
    'fingerprint', fingerprint, 'created', integer(time))
  redis.call('PEXPIRE', key, life)
  return {1, 1}
end
if fingerprint ~= '' and record.fingerprint ~= '' and fingerprint ~= record.fingerprint then return {5} end
if record.state == 'done' then return {3, record.attempt, payload(record)} end

local answer, attempt = 1, record.attempt
if record.owner ~= owner then
  if record.lease > time then
    if ARGV[5] then waitsHere(ARGV[5]) end
    return {4, attempt, record.lease - time}
  end
  answer, attempt = 2, attempt + 1
end
redis.call('HSET', key, 'owner', owner, 'lease', integer(time + lease), 'attempt', integer(attempt))
if fingerprint ~= '' then redis.call('HSET', key, 'fingerprint', fingerprint) end
live(life)
return {answer, attempt}
`);
