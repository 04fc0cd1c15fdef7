import type { Redis } from 'ioredis';
import type { Lock, LockOptions } from '../../lib/lock/lock.js';
import type { LockManager } from '../../lib/lock/lock-manager.js';
import { startLocks, type TestLocks } from './locks.js';
import type { RedisServer } from './redis-server.js';
import { TcpProxy } from './tcp-proxy.js';
import { waitFor } from './wait-for.js';

/** Who waits behind the lock that a scenario is about, and how that lock is come by. */
export interface Surroundings {
  /** Says the rest. */
  around: string;
  /** Tasks of the same process that wait behind it. */
  local: number;
  /** Backends of their own that wait behind it. */
  remote: number;
  handoff: boolean;
  /** From a task of the same process, or from another process. */
  from: 'own' | 'other';
}

export const SURROUNDINGS: readonly Surroundings[] = [
  {
    around: 'handed on inside the process, with others of it behind',
    local: 3,
    remote: 0,
    handoff: true,
    from: 'own',
  },
  {
    around: 'hand-off off, with others of the process behind',
    local: 3,
    remote: 0,
    handoff: false,
    from: 'own',
  },
  {
    around: 'passed on by another process, with a third behind',
    local: 0,
    remote: 2,
    handoff: true,
    from: 'other',
  },
  {
    around: 'handed on inside the process, with both kinds behind',
    local: 2,
    remote: 2,
    handoff: true,
    from: 'own',
  },
  {
    around: 'hand-off off, passed on, with both kinds behind',
    local: 2,
    remote: 2,
    handoff: false,
    from: 'other',
  },
];

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What a promise ends with: its value, or its error's code. */
export function endOf<T>(work: Promise<T>): Promise<T | string> {
  return work.catch((error: { code?: string }) => error.code ?? String(error));
}

/** One lock, the process that it is tested in (behind a proxy), and the crowd that waits for it. */
export class Scene {
  readonly key = 'k';
  /** In the order of their turns. */
  readonly fences: number[] = [];
  /** Set where the key is taken away by force: then its holder may believe in it for a moment more. */
  mayOverlap = false;
  private inside = 0;
  private readonly faults: string[] = [];
  private readonly waiters: Promise<void>[] = [];
  private holder: Lock | undefined;

  private constructor(
    readonly server: RedisServer,
    readonly redis: Redis,
    readonly proxy: TcpProxy,
    readonly mine: TestLocks,
    /** Another process that gives the lock on, and claims it. */
    readonly outsider: LockManager,
    private readonly others: readonly LockManager[],
    readonly surroundings: Surroundings,
  ) {}

  static async start(server: RedisServer, surroundings: Surroundings): Promise<Scene> {
    const proxy = await TcpProxy.start(server.port);
    const [mine, outsider, ...others] = await Promise.all([
      startLocks(proxy.url),
      startLocks(server.url),
      ...Array.from({ length: surroundings.remote }, () => startLocks(server.url)),
    ]);
    const managers = others.map(({ locks }) => locks);
    return new Scene(server, server.client(), proxy, mine, outsider.locks, managers, surroundings);
  }

  get locks(): LockManager {
    return this.mine.locks;
  }

  private withDefaults(options: LockOptions): LockOptions {
    return { ttl: '30s', waitTimeout: '25s', ...options, handoff: this.surroundings.handoff };
  }

  /** Resolves once so many processes stand in the store's queue. */
  queued(n: number): Promise<unknown> {
    return waitFor(async () => (await this.redis.zcard(`{${this.key}}:queue`)) === n, {
      what: `${n} in the queue`,
    });
  }

  /** Somebody holds the key, and one task of this process waits for it, first in line. */
  async line<T = Lock>(
    options: LockOptions = {},
    start: (options: LockOptions) => Promise<T> = (terms) =>
      this.locks.acquire(this.key, terms) as Promise<T>,
  ): Promise<{ before: Lock; waiting: Promise<T> }> {
    const terms = this.withDefaults(options);
    const isOwn = this.surroundings.from === 'own';
    const patient: LockOptions = { ...terms, signal: undefined, waitTimeout: '25s' };
    if (isOwn) {
      const before = await this.locks.acquire(this.key, patient);
      const waiting = start(terms);
      waiting.catch(() => undefined);
      return { before, waiting };
    }
    // the terms are those of the lock that is waited for: its predecessor must not end before somebody waits
    const before = await this.outsider.acquire(this.key, { ...patient, ttl: '30s', autoExtend: true });
    let waiting: Promise<T>;
    do {
      waiting = start(terms);
      // on a busy machine its time may be up before it is seen in the queue
    } while ((await Promise.race([this.queued(1), endOf(waiting).then(() => 'ended')])) === 'ended');
    return { before, waiting };
  }

  /** Comes by the lock as the surroundings say. */
  async take(options: LockOptions = {}): Promise<Lock> {
    for (;;) {
      const { before, waiting } = await this.line(options);
      await before.release();
      const lock = await waiting;
      const { from, handoff } = this.surroundings;
      // a turn may have been over on a slow machine: then it was not handed on
      if (from === 'other' || !handoff || lock.token === before.token) return lock;
      await lock.release();
    }
  }

  /** A section of this process that comes by the lock as the surroundings say. */
  async section<T>(task: (lock: Lock) => Promise<T>, options: LockOptions = {}): Promise<T> {
    const { before, waiting } = await this.line(options, (terms) =>
      this.locks.withLock(this.key, task, terms),
    );
    await before.release();
    return waiting;
  }

  /**
   * Lets the crowd come, and resolves when all of it stands in line.
   *
   * @param holder must not believe in its lock any more when one of the crowd has it.
   */
  async crowd(holder?: Lock, options: LockOptions = {}): Promise<void> {
    this.holder = holder;
    const { local, remote } = this.surroundings;
    const before = await this.redis.zcard(`{${this.key}}:queue`);
    for (let n = 0; n < local; n++) this.wait(this.locks, options);
    for (const other of this.others) this.wait(other, options);
    await this.queued(before + remote);
  }

  private wait(locks: LockManager, options: LockOptions): void {
    const turn = async (lock: Lock): Promise<void> => {
      if (++this.inside > 1) this.faults.push('two of the crowd at once');
      if (this.holder?.held && !this.mayOverlap) this.faults.push('its holder still believes in it');
      if (lock.fencingToken <= Math.max(this.holder?.fencingToken ?? 0, this.fences.at(-1) ?? 0)) {
        this.faults.push('a fencing token goes back');
      }
      this.fences.push(lock.fencingToken);
      await sleep(1);
      this.inside--;
    };
    const terms = { ...this.withDefaults(options), reentrant: false };
    const served = locks.withLock(this.key, turn, terms);
    served.catch(() => undefined);
    this.waiters.push(served);
  }

  /** All of the crowd had its turn, in order, and nothing is left in Redis but the fence. */
  async served(): Promise<void> {
    await Promise.all(this.waiters);
    expect(this.faults).toEqual([]);
    expect(this.fences).toHaveLength(this.waiters.length);
    await waitFor(async () => (await this.redis.exists(this.key, `{${this.key}}:queue`)) === 0, {
      what: 'key and queue to go',
    });
    expect(this.locks.held()).toEqual([]);
  }
}
