import type { Redis } from 'ioredis';
import { closeAllLocks, startLocks } from '../support/locks.js';
import { RedisServer } from '../support/redis-server.js';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('a section under a lock', () => {
  let server: RedisServer;
  let redis: Redis;

  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  afterAll(async () => server.stop());
  beforeEach(async () => {
    await redis.flushall();
  });
  afterEach(async () => closeAllLocks());

  it('gives the task its result and its error untouched', async () => {
    const { locks } = await startLocks(server.url);
    await expect(locks.withLock('k', () => 42)).resolves.toBe(42);
    const mine = new TypeError('mine');
    await expect(locks.withLock('k', () => Promise.reject(mine))).rejects.toBe(mine);
    await expect(
      locks.withLock('k', () => {
        throw mine;
      }),
    ).rejects.toBe(mine);
    expect(await redis.exists('k')).toBe(0);
  });

  it('L17: the task throws and the release fails: the error of the task comes through', async () => {
    const { locks } = await startLocks(server.url);
    const mine = new Error('mine');
    const failing = locks.withLock('k', async () => {
      await redis.acl('SETUSER', 'default', '-evalsha', '-eval'); // the release meets NOPERM
      throw mine;
    });
    await expect(failing).rejects.toBe(mine);
    expect(await redis.exists('k')).toBe(1);
    await redis.acl('SETUSER', 'default', '+evalsha', '+eval');
  });

  it('L18: a lock that ran out after the task had settled does not spoil its result', async () => {
    const { locks } = await startLocks(server.url);
    const result = locks.withLock(
      'k',
      async () => {
        // the release waits behind this pause for longer than the lease lives
        await redis.call('CLIENT', 'PAUSE', '700', 'ALL');
        return 'done';
      },
      { ttl: 400, autoExtend: false },
    );
    await expect(result).resolves.toBe('done');
  });

  it('L35: one after the other for parallel calls of one process', async () => {
    const { locks } = await startLocks(server.url);
    let inside = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 40 }, () =>
        locks.withLock('k', async () => {
          most = Math.max(most, ++inside);
          await sleep(1);
          inside--;
        }),
      ),
    );
    expect(most).toBe(1);
  });

  it('serves the callers of one process first in, first out', async () => {
    const { locks } = await startLocks(server.url);
    const order: number[] = [];
    await Promise.all(Array.from({ length: 20 }, (_, n) => locks.withLock('k', () => void order.push(n))));
    expect(order).toEqual(Array.from({ length: 20 }, (_, n) => n));
  });

  it('L44: deleted during the task: LockLostError carries the result, and the event is there', async () => {
    const { locks, events } = await startLocks(server.url);
    const work = locks.withLock('k', async () => {
      await redis.del('k');
      await sleep(50);
      return { charged: 10 };
    });
    await expect(work).rejects.toMatchObject({
      code: 'LOCK_LOST',
      reason: 'taken',
      hasResult: true,
      result: { charged: 10 },
    });
    expect(events.filter(({ type }) => type === 'lost')).toHaveLength(1);
  });

  it('L44: carries the error of the task as its cause, and lets the outcome through with onLost report', async () => {
    const { locks, count } = await startLocks(server.url);
    const mine = new Error('mine');
    const lose = async (): Promise<void> => {
      await redis.del('k');
    };
    await expect(
      locks.withLock('k', async () => {
        await lose();
        throw mine;
      }),
    ).rejects.toMatchObject({ code: 'LOCK_LOST', hasResult: false, cause: mine });
    await expect(locks.withLock('k', lose, { onLost: 'report' })).resolves.toBeUndefined();
    await expect(
      locks.withLock('k', async () => (await lose(), Promise.reject(mine)), { onLost: 'report' }),
    ).rejects.toBe(mine);
    expect(count('lost')).toBe(3);
  });

  it('hands the reason of the signal on when the task gives up for it', async () => {
    const { locks } = await startLocks(server.url);
    let reason: unknown;
    const work = locks.withLock(
      'k',
      async (lock) => {
        await redis.del('k');
        await new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
        reason = lock.signal.reason;
        lock.signal.throwIfAborted();
      },
      { ttl: 200 },
    );
    await expect(work).rejects.toBe(await work.catch(() => reason));
  });

  describe('reentrancy', () => {
    it('L14: a nested acquire with a shorter ttl shortens nothing', async () => {
      const { locks } = await startLocks(server.url);
      await locks.withLock(
        'k',
        async (outer) => {
          const inner = await locks.acquire('k', { ttl: 100 });
          expect(inner.fencingToken).toBe(outer.fencingToken);
          expect(inner.token).toBe(outer.token);
          expect(await redis.pttl('k')).toBeGreaterThan(9_000);
          expect(outer.remainingMs).toBeGreaterThan(9_000);
          expect(await inner.release()).toBe('released');
          expect(outer.held).toBe(true);
          expect(await redis.get('k')).toBe(outer.token);
        },
        { ttl: 10_000 },
      );
      expect(await redis.exists('k')).toBe(0);
    });

    it('sends no command for a nested hold', async () => {
      const { locks } = await startLocks(server.url);
      await locks.withLock('k', async () => {
        await redis.config('RESETSTAT');
        await locks.withLock('k', () => locks.withLock('k', () => undefined));
        expect(await redis.info('commandstats')).not.toMatch(/cmdstat_eval/);
      });
    });

    it('L45: parallel nested sections of one key run one after the other, no update is lost', async () => {
      const { locks } = await startLocks(server.url);
      let counter = 0;
      const add = (): Promise<void> =>
        locks.withLock('k', async () => {
          const read = counter;
          await sleep(2);
          counter = read + 1;
        });
      await locks.withLock('k', () =>
        Promise.all([add(), add(), locks.withLock('k', () => Promise.all([add(), add()]))]),
      );
      expect(counter).toBe(4);
    });

    it('the key is freed when the last hold ends', async () => {
      const { locks } = await startLocks(server.url);
      const outer = await locks.acquire('k');
      const inner = await outer.run(() => locks.acquire('k'));
      expect(await outer.release()).toBe('released');
      expect(outer.held).toBe(false);
      expect(await redis.get('k')).toBe(inner.token);
      expect(inner.held).toBe(true);
      expect(await inner.release()).toBe('released');
      expect(await redis.exists('k')).toBe(0);
    });

    it('a context that outlives its lock takes it afresh', async () => {
      const { locks } = await startLocks(server.url);
      let detached!: Promise<number>;
      const outer = await locks.withLock('k', (lock) => {
        detached = sleep(30).then(() => locks.withLock('k', ({ fencingToken }) => fencingToken));
        return lock.fencingToken;
      });
      expect(await detached).toBeGreaterThan(outer);
    });

    it('waits like anybody else with reentrant: false, and only joins its own module instance', async () => {
      const { locks } = await startLocks(server.url);
      const other = await startLocks(server.url);
      await locks.withLock('k', async () => {
        await expect(locks.acquire('k', { reentrant: false, waitTimeout: 0 })).rejects.toMatchObject({
          code: 'LOCK_BUSY',
        });
        await expect(other.locks.acquire('k', { waitTimeout: 0 })).rejects.toMatchObject({
          code: 'LOCK_BUSY',
        });
        await expect(locks.acquire('k', { reentrant: false, waitTimeout: 60 })).rejects.toMatchObject({
          code: 'LOCK_TIMEOUT',
        });
      });
    });

    it('acquire joins an open chain but never opens one; current() finds the innermost held lock', async () => {
      const { locks } = await startLocks(server.url);
      const lock = await locks.acquire('k');
      expect(locks.current()).toBeUndefined();
      await expect(locks.acquire('k', { waitTimeout: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
      await lock.run(async () => {
        expect(locks.current('k')).toBe(lock);
        await locks.withLock('other', async (inner) => {
          expect(locks.current()).toBe(inner);
          expect(locks.current('k')).toBe(lock);
          expect(locks.current('nope')).toBeUndefined();
        });
      });
      await lock.release();
    });

    it('a second nested branch is bounded by its waitTimeout and cancelled by its signal', async () => {
      const { locks } = await startLocks(server.url);
      await locks.withLock('k', async () => {
        const first = await locks.acquire('k');
        await expect(locks.acquire('k', { waitTimeout: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
        await expect(locks.acquire('k', { waitTimeout: 50 })).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
        const controller = new AbortController();
        const waiting = locks.acquire('k', { signal: controller.signal });
        controller.abort(new Error('enough'));
        await expect(waiting).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
        await first.release();
        await locks.withLock('k', () => undefined);
      });
    });
  });

  describe('several keys', () => {
    it('L27: an empty list is refused, duplicates are one hold', async () => {
      const { locks } = await startLocks(server.url);
      await expect(locks.acquire([])).rejects.toMatchObject({ code: 'LOCK_KEY' });
      const lock = await locks.acquire(['a', 'a']);
      expect(lock.keys).toEqual(['a']);
      await lock.release();
    });

    it('L27: opposite orders never deadlock and leave nothing behind, 200 rounds', async () => {
      const { locks } = await startLocks(server.url);
      const other = await startLocks(server.url);
      let inside = 0;
      const section = async (): Promise<void> => {
        expect(++inside).toBe(1);
        await Promise.resolve();
        inside--;
      };
      for (let round = 0; round < 200; round++) {
        await Promise.all([
          locks.withLock(['b', 'a'], section, { waitTimeout: '20s' }),
          other.locks.withLock(['a', 'b'], section, { waitTimeout: '20s' }),
        ]);
      }
      expect((await redis.keys('*')).filter((key) => !key.includes(':'))).toEqual([]);
    }, 60_000);

    it('L28: a failed acquisition leaves the free ones free at once', async () => {
      const { locks } = await startLocks(server.url);
      await redis.set('b', 'foreign', 'PX', 60_000);
      for (const waitTimeout of [0, 80]) {
        await expect(locks.acquire(['a', 'b', 'c'], { waitTimeout, minHold: 5_000 })).rejects.toMatchObject({
          code: waitTimeout === 0 ? 'LOCK_BUSY' : 'LOCK_TIMEOUT',
        });
        expect(await redis.exists('a', 'c')).toBe(0);
      }
    });

    it('has one fencing token, above every earlier one of each key, and later ones are above it', async () => {
      const { locks } = await startLocks(server.url);
      const far = 9_000_000_000_000_000;
      await redis.set('{b}:fence', String(far));
      const both = await locks.acquire(['a', 'b']);
      expect(both.fencingToken).toBe(far + 1);
      await both.release();
      await locks.withLock('a', (lock) => expect(lock.fencingToken).toBeGreaterThan(far + 1));
    });

    it('raises every fencing counter also when it had to wait for one of the keys', async () => {
      const { locks } = await startLocks(server.url);
      const far = 9_000_000_000_000_000;
      await redis.set('{b}:fence', String(far));
      await redis.set('b', 'foreign', 'PX', 150);
      const both = await locks.acquire(['a', 'b'], { autoExtend: false, ttl: 1_000 });
      expect(both.fencingToken).toBe(far + 1);
      expect(both.remainingMs).toBeGreaterThan(800);
      await both.release();
      await locks.withLock('a', (lock) => expect(lock.fencingToken).toBeGreaterThan(far + 1));
    });

    it('joins the keys that the chain holds and takes the others', async () => {
      const { locks } = await startLocks(server.url);
      await locks.withLock('a', async (outer) => {
        const both = await locks.acquire(['b', 'a']);
        expect(both.keys).toEqual(['a', 'b']);
        expect(await redis.get('a')).toBe(outer.token);
        await both.release();
        expect(await redis.exists('b')).toBe(0);
        expect(outer.held).toBe(true);
      });
    });

    it('is lost as a whole when one of its keys is', async () => {
      const { locks } = await startLocks(server.url);
      const lock = await locks.acquire(['a', 'b'], { ttl: 300 });
      const { signal } = lock;
      await redis.del('b');
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      expect(lock.held).toBe(false);
      expect(await lock.release()).toBe('lost');
      expect(await redis.exists('a', 'b')).toBe(0);
    });
  });
});
