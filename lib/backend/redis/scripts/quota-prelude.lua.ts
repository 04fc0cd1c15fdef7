/**
 * What the scripts of a quota share. The quota is a hash with the field 'remain'. Operations are kept in one hash
 * per period: field = kind and id, value = '<state>:<amount>:<remaining>', state 'done' or 'refunded'.
 *
 * KEYS[1] the quota · KEYS[2..4] the hashes of the periods around the one that the client expects
 * ARGV[1] field · ARGV[2] the period's length in ms · ARGV[3] the number of the period of KEYS[3] · ARGV[4] amount
 *
 * A record lives at least one period behind its own, so the period before this one must be among the keys: the
 * client may be one behind, never ahead.
 */
export const quotaPrelude = `
local quota, field, period, expected = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local LARGEST = 9007199254740991

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local current = math.floor(now / period)
if current < expected or current > expected + 1 then return {-3, string.format('%.0f', now)} end

local function find()
  for i = 2, 4 do
    local record = redis.call('HGET', KEYS[i], field)
    if record then
      local state, amount, remaining = string.match(record, '^(%l+):(%d+):(%d+)$')
      return KEYS[i], state, tonumber(amount), tonumber(remaining)
    end
  end
end

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

local function record(amount, remaining)
  local kept = KEYS[3 + current - expected]
  redis.call('HSET', kept, field, 'done:' .. integer(amount) .. ':' .. integer(remaining))
  redis.call('PEXPIREAT', kept, integer((current + 2) * period))
end
`;
