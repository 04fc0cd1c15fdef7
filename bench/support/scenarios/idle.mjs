import { setTimeout as sleep } from 'node:timers/promises';
import { ours, waitContenders } from '../contenders.mjs';
import { freshKey, openField, samplesBy } from '../field.mjs';
import { figure, row, say, withInterval } from '../table.mjs';

const WAITERS = 1_000;
/** Until the first tries are through and only waiting is left; who polls does nothing else from the start. */
const SETTLE_MS = 2_500;
const POLLERS_SETTLE_MS = 500;
/** How long one who polls is watched: it does the same all the time. */
const POLLERS_MS = 1_000;

/**
 * 1 000 waiters of one process that nobody lets in: on one key that another process holds, and on 1 000 such keys.
 *
 * @param {import('../../contention.mjs').Run} run
 */
export async function idle({ url, observer, rounds, seconds, wantedDefaults }) {
  const contenders = waitContenders.filter(
    (contender) => contender.kind === 'ours' || (contender.kind === 'peer' && wantedDefaults(contender)),
  );
  const samples = samplesBy(['oneKey', 'perKey']);

  /**
   * @param {import('../field.mjs').Contender} contender
   * @param {readonly string[]} keys
   * @param {number} forMs
   * @returns {Promise<number>} commands per second
   */
  async function commandsPerSecond(contender, keys, forMs) {
    const field = openField(url, [contender], 2);
    try {
      const [holder, waiting] = await field.workers(contender);
      await holder?.run('hold', { keys: [...new Set(keys)] });
      await waiting?.run('wait', { keys });
      await sleep(contender.pollMs ? POLLERS_SETTLE_MS : SETTLE_MS);
      const started = performance.now();
      // every command counts, the holder's renewals included: those inside scripts are told apart below
      const { sent } = await observer.count(inside.get(contender) ?? new Set(), () => sleep(forMs));
      const elapsed = performance.now() - started;
      // both must still be there
      await Promise.all([holder?.run('ready'), waiting?.run('ready')]);
      return sent / (elapsed / 1_000);
    } finally {
      await field.close();
    }
  }

  /** @type {Map<import('../field.mjs').Contender, ReadonlySet<string>>} */
  const inside = new Map();
  for (const contender of contenders) {
    const key = freshKey('idle-watched');
    inside.set(
      contender,
      await observer.insideScripts(async () => {
        const field = openField(url, [contender], 2);
        const [holder, waiting] = await field.workers(contender);
        await holder?.run('hold', { keys: [key] });
        await waiting?.run('wait', { keys: Array.from({ length: 20 }, () => key) });
        await sleep(1_500);
        await field.close();
      }),
    );
  }

  for (let round = 0; round < rounds; round += 1) {
    for (const contender of contenders) {
      const forMs = contender.pollMs ? POLLERS_MS : seconds * 1_000;
      const key = freshKey('idle');
      const oneKey = await commandsPerSecond(
        contender,
        Array.from({ length: WAITERS }, () => key),
        forMs,
      );
      // a peer polls for each caller: it asks the same, on one key or on many
      const perKey =
        contender.kind === 'ours'
          ? await commandsPerSecond(
              contender,
              Array.from({ length: WAITERS }, () => freshKey('idle')),
              forMs,
            )
          : oneKey;
      samples.add(contender, { oneKey, perKey: perKey / WAITERS });
    }
  }

  say(`\nidle: ${WAITERS} waiters of one process (peers with their defaults)`);
  say(row('', 'one key: commands/s', '1 000 keys: /s and key'));
  for (const contender of contenders) {
    const { oneKey, perKey } = samples.of(contender);
    say(
      row(contender.name, withInterval(oneKey, 2), contender.kind === 'ours' ? withInterval(perKey, 3) : '-'),
    );
  }

  const { oneKey, perKey } = samples.of(ours);
  return {
    figures: { oneKeyPerSecond: figure(oneKey, 2), perKeyPerSecond: figure(perKey, 3) },
    violations: 0,
  };
}
