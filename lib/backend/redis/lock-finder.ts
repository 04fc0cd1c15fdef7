import { FENCE_BLOCK, type LockState } from '../backend.js';
import type { Connection } from './connection.js';
import { escapeGlob, FENCE_SUFFIX, fenceKey, globToRegExp, keyOfFence, queueKey } from './keys.js';
import { scanKeys } from './scan-keys.js';
import type { ScriptRunner } from './script-runner.js';
import { inspectScript } from './scripts/inspect.lua.js';

/** Shows locks, one or all that are held, for operators. */
export class LockFinder {
  constructor(
    private readonly connection: Connection,
    private readonly runner: ScriptRunner,
  ) {}

  async inspect(key: string, timeoutMs: number): Promise<LockState | null> {
    const lock = this.connection.keyPrefix + key;
    const reply = (await this.runner.run(inspectScript, [lock, fenceKey(lock), queueKey(lock)], [], {
      timeoutMs,
      about: key,
    })) as [string, number, string, number] | null;
    if (!reply) return null;
    const [token, remainingMs, reserved, waitingProcesses] = reply;
    const state: LockState = { key, token, remainingMs, waitingProcesses };
    // the fence tells the end of the lease's block; its first token is what the lease began with
    if (/^\d+$/.test(reserved)) state.fencingToken = Math.max(0, Number(reserved) - (FENCE_BLOCK - 1));
    return state;
  }

  async *list(prefix: string, pattern: string, timeoutMs: number): AsyncIterable<LockState> {
    const { keyPrefix } = this.connection;
    const wanted = `${escapeGlob(keyPrefix + prefix)}${pattern}`;
    const isWanted = globToRegExp(wanted);
    const seen = new Set<string>();
    // before the key may stand the brace of its companions' hash tag, and behind it the other one
    for await (const names of scanKeys(
      this.connection,
      this.runner,
      `*${wanted}*${FENCE_SUFFIX}`,
      timeoutMs,
    )) {
      const locks = names
        .map(keyOfFence)
        .filter((lock) => lock !== undefined && isWanted.test(lock) && !seen.has(lock));
      const fresh = [...new Set(locks as string[])];
      for (const lock of fresh) seen.add(lock);
      const states = await Promise.all(
        fresh.map((lock) => this.inspect(lock.slice(keyPrefix.length), timeoutMs)),
      );
      for (const state of states) if (state) yield state;
    }
  }
}
