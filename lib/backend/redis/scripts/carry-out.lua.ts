import { script } from '../script.js';
import { operationsPrelude } from './quota-prelude.lua.js';
import { CALLS_LIFE_MS } from './take.lua.js';

/**
 * Calls of every kind on one quota, in order, each as if alone.
 *
 * KEYS[1..4], ARGV[1..2]: see quota-prelude.lua.ts · KEYS[5] the senders' last batches, when a call has no id
 * ARGV[3] 1 for a shard · ARGV[4] the sender · ARGV[5] the batch's number · ARGV[6] one letter for each call: d deduct,
 * g grant, upper case with an id, R refund · then an amount for each call · then a field for each call with an id
 * Answers {1, one answer for each call, apart by spaces} · {-3, TIME in ms} ask again with the right period ·
 * {-7} a later batch came first. The answers: g<remaining> granted · p<amount>:<remaining> granted before, under this
 * id · k<remaining> granted before, by this batch · x<remaining> not enough · n no such quota · a<amount> the
 * operation has another amount · r<amount> it is refunded · b<amount>:<remaining> given back ·
 * q<amount>:<remaining> given back before · u nothing to give back · e<place> it is elsewhere · i 'remain' is no
 * integer · o the sum would be no safe integer.
 */
export const carryOutScript = script(`${operationsPrelude}
local kinds = ARGV[6]
local n = #kinds
local m = #ARGV - 6 - n

local found, foundAt = {}, {}
if m > 0 then
  found = redis.call('HMGET', KEYS[here], unpack(ARGV, 7 + n))
  for i = 2, 4 do
    if i ~= here and redis.call('EXISTS', KEYS[i]) == 1 then
      local others = redis.call('HMGET', KEYS[i], unpack(ARGV, 7 + n))
      for j = 1, m do
        if others[j] and not found[j] then found[j], foundAt[j] = others[j], i end
      end
    end
  end
end

local last, known
if m < n then
  last = redis.call('HGET', KEYS[5], ARGV[4])
  if last then
    local number, own = tonumber(string.match(last, '^%d+')), tonumber(ARGV[5])
    if number > own then return {-7} end
    if number == own then known = string.gmatch(string.gsub(last, '^%d+', ''), '%S+') end
  end
end

local before = remain()
local left, raised = before, false

local function deduct(amount)
  if left == nil then return 'i' end
  if not left then return 'n' end
  if left < amount then return 'x' .. integer(left) end
  left = left - amount
  return 'g' .. integer(left)
end

local function add(amount)
  if left == nil then return 'i' end
  -- subtracted, not added: the sum may be no exact number
  if (left or 0) > LARGEST - amount then return 'o' end
  left, raised = (left or 0) + amount, true
  return 'g' .. integer(left)
end

local changed, moved, latest = {}, {}, {}
local function keep(field, record, at)
  changed[#changed + 1] = field
  changed[#changed + 1] = record
  -- a later call of this batch may have the same id
  latest[field] = record
  if at then moved[#moved + 1] = {KEYS[at], field} end
end

local function again(record, amount)
  local state, had, remaining = read(record)
  if record == 'void' then return 'r0' end
  if state ~= 'done' and state ~= 'refunded' then return 'e' .. record end
  if had ~= amount then return 'a' .. integer(had) end
  if state == 'refunded' then return 'r' .. integer(had) end
  return 'p' .. integer(had) .. ':' .. remaining
end

local function refund(record, field, at)
  if not record then
    -- a deduction of this id that is still under way must not take what was refunded
    keep(field, 'void')
    return 'u'
  end
  if record == 'void' then return 'u' end
  local state, had, remaining = read(record)
  if state == 'refunded' then return 'q' .. integer(had) .. ':' .. remaining end
  if state ~= 'done' then return 'e' .. record end
  if left == false then return 'u' end
  local answer = add(had)
  if answer == 'i' or answer == 'o' then return answer end
  keep(field, 'refunded:' .. integer(had) .. ':' .. integer(left), at)
  return 'b' .. integer(had) .. ':' .. integer(left)
end

local answers, plain, plainDone, j = {}, {}, false, 0
for i = 1, n do
  local kind, amount = string.byte(kinds, i), tonumber(ARGV[6 + i])
  local answer
  if kind >= 97 then
    if known then
      answer = string.gsub(known(), '^g', 'k')
    else
      answer = kind == 100 and deduct(amount) or kind == 103 and add(amount)
      plain[#plain + 1] = answer
      plainDone = plainDone or string.byte(answer) == 103
    end
  else
    j = j + 1
    local field = ARGV[6 + n + j]
    local record = latest[field] or found[j]
    if kind == 82 then
      answer = refund(record, field, foundAt[j])
    elseif record then
      answer = again(record, amount)
    else
      answer = kind == 68 and deduct(amount) or kind == 71 and add(amount)
      if string.byte(answer) == 103 then
        keep(field, 'done:' .. ARGV[6 + i] .. ':' .. string.sub(answer, 2))
      end
    end
  end
  answers[i] = answer
end

-- what a full memory refuses comes first: then nothing is done, or all of it
if left ~= before then redis.call('HSET', quota, 'remain', integer(left)) end
if raised and ARGV[3] == '1' then redis.call('HINCRBY', quota, 'version', 1) end
if #changed > 0 then
  redis.call('HSET', KEYS[here], unpack(changed))
  redis.call('PEXPIREAT', KEYS[here], integer((current + 2) * period))
end
for _, old in ipairs(moved) do redis.call('HDEL', old[1], old[2]) end
if plainDone then
  redis.call('HSET', KEYS[5], ARGV[4], ARGV[5] .. ' ' .. table.concat(plain, ' '))
  if not last then redis.call('PEXPIRE', KEYS[5], ${CALLS_LIFE_MS}) end
end
return {1, table.concat(answers, ' ')}
`);
