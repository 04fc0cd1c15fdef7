/**
 * What the scripts of an idempotency record share. A record is one hash: state ('pending' or 'done'), owner,
 * lease (its end, ms by this server's TIME), attempt, fingerprint ('' when none), created (ms), payload.
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
