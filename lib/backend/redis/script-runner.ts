import type { Redis } from 'ioredis';
import { CommandTimeouts, type PendingCommand } from './command-timeouts.js';
import type { CommandArgument, Connection } from './connection.js';
import type { Script } from './script.js';
import { isReplyError, timedOut, toStoreError } from './store-errors.js';

/** What became of one command: which connection carried it, and whether Redis answered, be it too late. */
export interface Carrier {
  /** The connection's epoch, or {@link NOT_SENT}, or {@link GONE}. */
  epoch: number;
  answered: boolean;
}

/** It never left. */
export const NOT_SENT = -1;
/** The connection that carried it closed without an answer. */
export const GONE = -2;

export interface RunOptions {
  timeoutMs: number;
  /** The keys for the error's text, as the caller knows them. */
  about: string | readonly string[];
  /** Replies as Buffers instead of strings. @default false */
  buffers?: boolean;
  /** Filled in while the command goes its way. */
  carrier?: Carrier;
  /** Asks this node instead of the one that the keys lie on. */
  node?: Redis | undefined;
}

/** How ioredis says that a socket which is just closing, or a Cluster without nodes, took nothing. */
const NEVER_SENT = /enableOfflineQueue options is false$/;
/**
 * Runs commands and scripts with a time-out of our own. A time-out never means "not applied": the answer is
 * still read when it comes, and dropped; what has timed out is never sent a second time.
 */
export class ScriptRunner {
  private readonly timeouts = new CommandTimeouts();

  constructor(private readonly connection: Connection) {}

  /** EVALSHA, and EVAL where the server does not know the script (yet, or any more). */
  run(
    script: Script,
    keys: readonly string[],
    args: readonly CommandArgument[],
    options: RunOptions,
  ): Promise<unknown> {
    return this.execute('evalsha', [script.sha, keys.length, ...keys, ...args], options, script);
  }

  /**
   * Makes the server know these scripts, so that the first call is one round trip too; after a restart of the
   * server hundreds of calls may be waiting. Only a saving: what it does not reach is covered by {@link run}.
   */
  preload(scripts: readonly Script[]): void {
    for (const node of this.connection.nodes()) {
      for (const { lua } of scripts) {
        this.connection.send('script', ['LOAD', lua], false, node).catch(() => undefined);
      }
    }
  }

  /** One plain command. */
  command(name: string, args: readonly CommandArgument[], options: RunOptions): Promise<unknown> {
    return this.execute(name, args, options);
  }

  private execute(
    name: string,
    args: readonly CommandArgument[],
    { timeoutMs, about, buffers = false, carrier, node }: RunOptions,
    script?: Script,
  ): Promise<unknown> {
    const { connection } = this;
    if (!connection.isReady) return Promise.reject(connection.notReady(about));
    return new Promise((resolve, reject) => {
      const sentAt = performance.now();
      let expired = false;
      let fallback = script;
      const pending: PendingCommand = {
        expiresAt: sentAt + timeoutMs,
        expire: () => {
          expired = true;
          reject(timedOut(about, timeoutMs));
          connection.unanswered(sentAt);
        },
      };
      this.timeouts.add(pending);

      const send = (command: string, itsArgs: readonly CommandArgument[]): void => {
        if (carrier) carrier.epoch = connection.epoch;
        connection.send(command, itsArgs, buffers, node).then(answered, failed);
      };
      const answered = (reply: unknown): void => {
        connection.answered();
        if (carrier) carrier.answered = true;
        this.timeouts.remove(pending);
        resolve(reply);
      };
      const failed = (error: Error): void => {
        const replied = isReplyError(error);
        if (replied) connection.answered();
        if (replied && fallback && error.message.startsWith('NOSCRIPT')) {
          const { lua } = fallback;
          fallback = undefined;
          // sent now, a command that its caller has given up would run behind its own clean-up
          if (!expired && connection.isReady) return send('eval', [lua, ...args.slice(1)]);
          if (carrier) carrier.epoch = NOT_SENT;
          this.timeouts.remove(pending);
          return reject(connection.notReady(about));
        }
        const sent = !NEVER_SENT.test(error.message);
        if (carrier) {
          carrier.answered = replied;
          if (!replied) carrier.epoch = sent ? GONE : NOT_SENT;
        }
        this.timeouts.remove(pending);
        reject(toStoreError(error, about, sent));
      };
      send(name, args);
    });
  }
}
