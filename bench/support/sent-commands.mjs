import { once } from 'node:events';
import { Redis } from 'ioredis';

/**
 * How many commands clients sent. Redis counts calls per command (`INFO commandstats`), but it counts those inside
 * scripts too, so a contender is watched first, by MONITOR, which tells the two apart: what is seen inside scripts
 * only is left out of its count. A command that is seen in both places, or never seen while watching, is counted as
 * sent: the figure is never too low. MONITOR itself slows Redis down, so nothing that is timed runs under it.
 */

/** What this observer sends. */
const OWN = new Set(['info', 'monitor', 'echo']);

/** @param {string} url */
export function sentCommandsObserver(url) {
  const client = new Redis(url);

  /** @returns {Promise<Map<string, number>>} calls so far, by command */
  async function calls() {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const [, name = '', count] of (await client.info('commandstats')).matchAll(
      /^cmdstat_([^:]+):calls=(\d+)/gm,
    )) {
      // `script|load` and `client|info` are counted with their container
      const command = name.split('|')[0] ?? name;
      counts.set(command, (counts.get(command) ?? 0) + Number(count));
    }
    return counts;
  }

  return {
    /**
     * @param {() => Promise<unknown>} work
     * @returns {Promise<ReadonlySet<string>>} the commands that scripts call and clients do not
     */
    async insideScripts(work) {
      const monitor = await client.monitor();
      /** @type {Set<string>} */
      const sent = new Set();
      /** @type {Set<string>} */
      const inside = new Set();
      const marker = `end:${process.hrtime.bigint()}`;
      monitor.on(
        'monitor',
        (/** @type {string} */ _time, /** @type {string[]} */ args, /** @type {string} */ source) => {
          if (args[1] === marker) monitor.emit('bench:end');
          else (source === 'lua' ? inside : sent).add((args[0] ?? '').toLowerCase());
        },
      );
      const ended = once(monitor, 'bench:end');
      await work();
      await client.echo(marker);
      await ended;
      monitor.disconnect();
      return new Set([...inside].filter((command) => !sent.has(command)));
    },

    /**
     * @template T
     * @param {ReadonlySet<string>} inside from `insideScripts`
     * @param {() => Promise<T>} work
     * @returns {Promise<{ sent: number, result: T }>}
     */
    async count(inside, work) {
      const before = await calls();
      const result = await work();
      const after = await calls();
      let sent = 0;
      for (const [command, count] of after) {
        if (!inside.has(command) && !OWN.has(command)) sent += count - (before.get(command) ?? 0);
      }
      return { sent, result };
    },

    close: () => client.disconnect(),
  };
}

/** @typedef {ReturnType<typeof sentCommandsObserver>} SentCommandsObserver */
