import { FENCE_BLOCK, PASSED_ON_LEASE_MS } from '../../backend.js';
import { script, type Script } from '../script.js';

/** Behind it stand the first 23 characters of a token: all tokens of one process have them, so it has one inbox. */
export const INBOX_CHANNEL = 'nestjs-redis-lock:inbox:';
export const INBOX_NAME_LENGTH = 23;

/** How long a queue lives after the last look of anybody who stands in it, in milliseconds. */
export const QUEUE_LIFE_MS = 5_000;
/** More dead ones are left to the next call: no script may go on without a bound. */
const MOST_DEAD = 32;

/**
 * Makes fencing tokens. For scripts whose KEYS[3] is the lock's fence.
 *
 * `reserve(life)` reserves a block and answers its first token and the time, or nil, the time and the error of a
 * fence that cannot be kept.
 */
export const fencePrelude = `
local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function reserve(life)
  local now = microseconds()
  local first = now
  local last = redis.pcall('SET', KEYS[3], string.format('%.0f', first + ${FENCE_BLOCK - 1}), 'PX', life, 'GET')
  if type(last) == 'table' then return nil, now, last end
  last = tonumber(last or 0) or 0
  if last >= first then
    first = last + 1
    redis.call('SET', KEYS[3], string.format('%.0f', first + ${FENCE_BLOCK - 1}), 'PX', life)
  end
  return first, now
end`;

/**
 * Passes a lock on. For scripts with KEYS[1] the lock (L), KEYS[2] its queue, KEYS[3] its fence.
 *
 * `pass(life, me)` writes the first waiter's token with a short lease and tells its process. It answers 'passed'
 * and the time; 'mine' when `me` is the first; 'empty' when nobody is left; 'dead' after too many whom nobody
 * listens for; 'failed' and the error. But for 'passed', what stands under L is the caller's to set right.
 */
const passPrelude = (skipsDead: boolean): string => `${fencePrelude}
local function tell(token, first, now)
  return redis.pcall('PUBLISH', '${INBOX_CHANNEL}' .. string.sub(token, 1, ${INBOX_NAME_LENGTH}),
    token .. string.format(' %.0f %.0f ', first, now) .. KEYS[1])
end
local function pass(life, me)
  local first, now, fault
  for _ = 1, ${MOST_DEAD} do
    local popped = redis.pcall('ZPOPMIN', KEYS[2])
    if popped.err then return 'failed', popped end
    local waiter = popped[1]
    if not waiter then return 'empty' end
    if waiter == me then return 'mine' end
    if not first then
      first, now, fault = reserve(life)
      if fault then return 'failed', fault end
    end
    redis.call('SET', KEYS[1], waiter, 'PX', ${PASSED_ON_LEASE_MS})
    -- an error (a channel that this user may not write to) says nothing about who listens
    ${skipsDead ? `if tell(waiter, first, now) ~= 0 then return 'passed', now end` : `tell(waiter, first, now)\n    return 'passed', now`}
  end
  return 'dead'
end
local function queue(token, now)
  redis.call('ZADD', KEYS[2], 'NX', string.format('%.0f', now), token)
  redis.call('PEXPIRE', KEYS[2], ${QUEUE_LIFE_MS})
end
`;

/**
 * A script that passes locks on. On a single server a waiter whom nobody listens for is skipped at once; a
 * Cluster's node knows only its own listeners, so there its short lease alone tells.
 */
export interface PassingScript {
  readonly single: Script;
  readonly cluster: Script;
}

/**
 * @param lua what the script does.
 * @param first what stands before everything else: the way that an uncontended lock takes, for which the
 *   functions need not even be made.
 */
export function passingScript(lua: string, first = ''): PassingScript {
  return {
    single: script(first + passPrelude(true) + lua),
    cluster: script(first + passPrelude(false) + lua),
  };
}
