import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { extname, join } from 'node:path';

// Compiled, it is .js; the tests run the sources.
const FILE = join(__dirname, `lock-holder.process${extname(__filename)}`);
const START_LIMIT_MS = 60_000;

/** A child process that holds a lock until it is killed. */
export class LockHolder {
  private constructor(
    private readonly child: ChildProcess,
    /** Its lock's. */
    readonly fencingToken: number,
    /** When its lock was told: milliseconds since 1970. */
    readonly since: number,
  ) {}

  /** Resolves when the process holds the lock. */
  static async start(lock: { redisUrl: string; key: string; ttlMs: number }): Promise<LockHolder> {
    const child = fork(FILE, {
      env: {
        ...process.env,
        HOLD_REDIS_URL: lock.redisUrl,
        HOLD_KEY: lock.key,
        HOLD_TTL_MS: String(lock.ttlMs),
      },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const limit = AbortSignal.timeout(START_LIMIT_MS);
    try {
      const [message] = (await Promise.race([
        once(child, 'message', { signal: limit }),
        once(child, 'exit', { signal: limit }).then(() => [{ fault: 'it ended' }]),
      ])) as [{ fencingToken?: number; fault?: string }];
      if (message.fencingToken === undefined) throw new Error(`The holder did not start: ${message.fault}`);
      return new LockHolder(child, message.fencingToken, Date.now());
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    }
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** SIGKILL: nothing of its own runs any more, and nothing is released. Resolves when it has ended. */
  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }
}
