import { script } from '../script.js';
import { passingScript } from './lock-prelude.lua.js';

const release = `
local holder = redis.pcall('GET', KEYS[1])
if not holder then return 0 end
if holder ~= ARGV[1] then return -1 end
if pass(ARGV[2]) ~= 'passed' then redis.call('DEL', KEYS[1]) end
return 1
`;

/**
 * Compare-and-delete, or pass on to the first who waits.
 *
 * KEYS[1] the lock · KEYS[2] its queue · KEYS[3] its fence
 * ARGV[1] token · ARGV[2] the fence's life in ms
 * Answers 1 released, 0 gone, -1 somebody else's (also: another type of value).
 */
export const releaseScript = passingScript(
  release,
  `
if redis.pcall('GET', KEYS[1]) == ARGV[1] and redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end
`,
);

/**
 * Makes sure that a token holds nothing and waits for nothing: as {@link releaseScript}, and out of the queue.
 */
export const leaveScript = passingScript(`
redis.pcall('ZREM', KEYS[2], ARGV[1])
${release}`);

/**
 * Compare-and-expire, for a lock that must stay a little longer (minHold); nobody gets it before.
 *
 * KEYS[1] the lock
 * ARGV[1] token · ARGV[2] how long the key stays, in ms
 * Answers as {@link releaseScript}.
 */
export const keepScript = script(`
local holder = redis.pcall('GET', KEYS[1])
if not holder then return 0 end
if holder ~= ARGV[1] then return -1 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`);
