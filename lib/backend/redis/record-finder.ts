import { isRedisLockError } from '../../errors.js';
import type { RecordState } from '../backend.js';
import type { Connection } from './connection.js';
import { escapeGlob } from './keys.js';
import { scanKeys } from './scan-keys.js';
import type { ScriptRunner } from './script-runner.js';
import { inspectRecordScript } from './scripts/inspect-record.lua.js';

/** So many records, replies included, are in memory at once. */
const AT_ONCE = 32;

/** Shows idempotency records, one or many, for operators. */
export class RecordFinder {
  constructor(
    private readonly connection: Connection,
    private readonly runner: ScriptRunner,
  ) {}

  async inspect(recordKey: string, timeoutMs: number): Promise<RecordState | null> {
    const reply = await this.runner.run(inspectRecordScript, [this.connection.keyPrefix + recordKey], [], {
      timeoutMs,
      about: recordKey,
      buffers: true,
    });
    if (!reply) return null;
    const [done, attempt, rest] = reply as [number, number, number | Buffer];
    return done === 1
      ? { recordKey, state: 'done', attempt, leaseMs: 0, payload: rest as Buffer }
      : { recordKey, state: 'pending', attempt, leaseMs: rest as number };
  }

  async *list(prefix: string, pattern: string, timeoutMs: number): AsyncIterable<RecordState> {
    const { keyPrefix } = this.connection;
    const match = escapeGlob(keyPrefix + prefix) + pattern;
    for await (const names of scanKeys(this.connection, this.runner, match, timeoutMs)) {
      const recordKeys = [...new Set(names)].map((name) => name.slice(keyPrefix.length));
      for (let from = 0; from < recordKeys.length; from += AT_ONCE) {
        const some = recordKeys.slice(from, from + AT_ONCE);
        const states = await Promise.all(some.map((recordKey) => this.look(recordKey, timeoutMs)));
        for (const state of states) if (state) yield state;
      }
    }
  }

  /** Another type of value that matches is no record. */
  private async look(recordKey: string, timeoutMs: number): Promise<RecordState | null> {
    try {
      return await this.inspect(recordKey, timeoutMs);
    } catch (error) {
      if (isRedisLockError(error, 'STORE_UNAVAILABLE') && /WRONGTYPE/.test(error.message)) return null;
      throw error;
    }
  }
}
