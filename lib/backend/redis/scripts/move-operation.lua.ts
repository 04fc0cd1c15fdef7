import { script } from '../script.js';
import { operationsPrelude } from './quota-prelude.lua.js';

/**
 * Compare-and-set of an operation's record.
 *
 * KEYS, ARGV[1..2]: see quota-prelude.lua.ts
 * ARGV[3] field · ARGV[4] what must stand there, empty for nothing · ARGV[5] what shall
 * Answers {1, what stands now} · {-3, TIME in ms} ask again with the right period.
 */
export const moveOperationScript = script(`${operationsPrelude}
local record, at = find(ARGV[3])
if (record or '') ~= ARGV[4] then return {1, record or ''} end
put(ARGV[3], ARGV[5], at)
return {1, ARGV[5]}
`);
