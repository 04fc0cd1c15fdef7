import { INBOX_CHANNEL } from './lock-prelude.lua.js';

/** Begins a message that a record ended; the record's name follows. No lock's message begins like this. */
export const RECORD_MESSAGE = 'record ';

/** Before the name of a process's inbox: the field by which it waits. */
const WAITING_FIELD = 'inbox:';
/** A pending record that nobody waits for has so many fields. */
const OWN_FIELDS = 6;
/** So many processes are told; those beyond it find out by asking. */
const MOST_TOLD = 256;

/**
 * What the scripts of an idempotency record share. A record is one hash: state ('pending' or 'done'), owner,
 * lease (its end, ms by this server's TIME), attempt, fingerprint ('' when none), created (ms), payload; while it
 * is pending, one field more for each process that waits.
 */
export const recordPrelude = `
local key = KEYS[1]

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- nil when there is none. What is not as we write it counts as done, with nothing to replay: never as absent.
local function read()
  local f = redis.call('HMGET', key, 'state', 'owner', 'lease', 'attempt', 'fingerprint')
  local record = {state = f[1], owner = f[2] or '', lease = tonumber(f[3] or ''), attempt = tonumber(f[4] or ''),
    fingerprint = f[5] or ''}
  if not f[1] and redis.call('EXISTS', key) == 0 then return nil end
  local whole = record.attempt and (f[1] == 'done' or (f[1] == 'pending' and record.lease))
  if not whole then return {state = 'done', damaged = true, owner = '', lease = 0, attempt = 0, fingerprint = ''} end
  return record
end

local function payload(record)
  return not record.damaged and redis.call('HGET', key, 'payload') or ''
end

-- at least this long; a longer life stays
local function live(ms)
  if redis.call('PTTL', key) < tonumber(ms) then redis.call('PEXPIRE', key, ms) end
end

local function integer(number)
  return string.format('%.0f', number)
end
`;

/** `waitsHere(inbox)` notes that a process waits for a pending record. */
export const noteWaiting = `
local function waitsHere(inbox)
  if redis.call('HLEN', key) < ${OWN_FIELDS + MOST_TOLD} then redis.call('HSET', key, '${WAITING_FIELD}' .. inbox, '') end
end
`;

/**
 * `tellWaiting()` tells every process that waits for a pending record, and takes it out. Called before anything else
 * is written. A channel that this user may not use (ACL) must not stop what was begun.
 */
export const tellWaiting = `
local function tellWaiting()
  if redis.call('HLEN', key) <= ${OWN_FIELDS} then return end
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, ${WAITING_FIELD.length}) == '${WAITING_FIELD}' then
      redis.call('HDEL', key, field)
      redis.pcall('PUBLISH', '${INBOX_CHANNEL}' .. string.sub(field, ${WAITING_FIELD.length + 1}), '${RECORD_MESSAGE}' .. key)
    end
  end
end
`;

/** The field by which the process with this inbox waits. */
export function waitingField(inbox: string): string {
  return WAITING_FIELD + inbox;
}
