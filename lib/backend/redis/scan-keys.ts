import type { Connection } from './connection.js';
import type { ScriptRunner } from './script-runner.js';

const SCAN_COUNT = 500;

/**
 * The names that match a glob, of every server, batch by batch. A name that stays is found; it may be found twice
 * while the store grows or shrinks.
 */
export async function* scanKeys(
  connection: Connection,
  runner: ScriptRunner,
  match: string,
  timeoutMs: number,
): AsyncIterable<string[]> {
  for (const node of connection.nodes()) {
    let cursor = '0';
    do {
      const args = [cursor, 'MATCH', match, 'COUNT', SCAN_COUNT];
      const reply = await runner.command('scan', args, { timeoutMs, about: [], node });
      const [next, names] = reply as [string, string[]];
      cursor = next;
      yield names;
    } while (cursor !== '0');
  }
}
