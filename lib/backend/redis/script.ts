import { createHash } from 'node:crypto';

/** A Lua script, known to Redis by the SHA-1 of its text. */
export interface Script {
  readonly lua: string;
  readonly sha: string;
}

export function script(lua: string): Script {
  const text = lua.trim();
  return { lua: text, sha: createHash('sha1').update(text).digest('hex') };
}
