/**
 * What every script of a quota shares. The quota is a hash with the field 'remain'.
 *
 * KEYS[1] the quota
 */
export const quotaPrelude = `
local quota = KEYS[1]
local LARGEST = 9007199254740991

-- a safe integer; false where there is none; nil for anything else
local function remain()
  local text = redis.call('HGET', quota, 'remain')
  if not text then return false end
  local number = string.match(text, '^%-?%d+$') and tonumber(text)
  if number and math.abs(number) <= LARGEST then return number end
  return nil
end

-- as text, also in answers: a client that builds integer replies digit by digit rounds just below 2^53 (ioredis 6)
local function integer(number)
  return string.format('%.0f', number)
end
`;

/**
 * What the scripts share that know operations by their ids. Records stand in one hash per period: field = kind and
 * id, value = 'done:<amount>:<remaining>', 'refunded:<amount>:<remaining>', 'void' (refunded before it took anything),
 * or what a sharded quota keeps there.
 *
 * KEYS[2..4] the hashes of the periods around the one that the client expects
 * ARGV[1] the period's length in ms · ARGV[2] the number of the period of KEYS[3]
 *
 * A record lives at least one period behind its own, so the period before this one must be among the keys: the
 * client may be one behind, never ahead. The period behind this one is looked at too: a clock may have been set back.
 */
export const operationsPrelude = `${quotaPrelude}
local period, expected = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local current = math.floor(now / period)
if current < expected or current > expected + 1 then return {-3, integer(now)} end
local here = 3 + current - expected

-- the record, and which of KEYS holds it
local function find(field)
  for i = 2, 4 do
    local record = redis.call('HGET', KEYS[i], field)
    if record then return record, i end
  end
end

-- in this period, and nowhere else: the hash that held it may go at any moment
local function put(field, record, at)
  redis.call('HSET', KEYS[here], field, record)
  redis.call('PEXPIREAT', KEYS[here], integer((current + 2) * period))
  if at and at ~= here then redis.call('HDEL', KEYS[at], field) end
end

local function read(record)
  local state, amount, remaining = string.match(record, '^(%l+):(%d+):(%-?%d+)')
  return state, tonumber(amount), remaining
end
`;
