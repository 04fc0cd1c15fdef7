import { Controller, Get, Injectable, Logger, type INestApplication } from '@nestjs/common';
import request from 'supertest';
import { isRedisLockError } from '../../lib/errors.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { LockService } from '../../lib/nest/lock.service.js';
import type { RedisLockModuleOptions } from '../../lib/nest/module-options.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { inMemoryBackend } from '../../lib/testing/index.js';
import { waitFor } from '../support/wait-for.js';
import { gate, PLATFORMS, startApp } from './nest-platforms.js';

describe.each(PLATFORMS)('the life of an application on %s', (platform) => {
  let started = gate();
  let go = gate();
  let app: INestApplication;
  afterEach(() => app.close());

  @Controller()
  class Orders {
    constructor(private readonly locks: LockService) {}

    @Get('slow')
    @DistributedLock('lock:1')
    async slow(): Promise<string> {
      started.open();
      await go.opened;
      return this.locks.current()?.signal.aborted ? 'aborted' : 'finished';
    }

    @Get('quick')
    @DistributedLock('lock:2')
    quick(): string {
      return 'ok';
    }
  }

  const start = async (options: RedisLockModuleOptions = {}): Promise<void> => {
    started = gate();
    go = gate();
    app = await startApp(platform, {
      imports: [RedisLockModule.forRoot({ backend: inMemoryBackend(), ...options })],
      controllers: [Orders],
    });
  };
  const get = (path: string): Promise<request.Response> =>
    new Promise((resolve, reject) => {
      request(app.getHttpServer())
        .get(path)
        .end((error, response) => (error ? reject(error as Error) : resolve(response)));
    });

  it('lets open requests finish under their locks, and rejects the waiting, when it closes', async () => {
    await start();
    await app.listen(0, '127.0.0.1');
    const running = get('/slow');
    await started.opened;
    const locks = app.get(LockService);
    const contended = new Promise<void>((done) => {
      locks.events.subscribe(({ type }) => type === 'contended' && done());
    });
    const waiting = locks.acquire('lock:1').catch((error: unknown) => error);
    await contended;
    const closed = app.close();
    expect(isRedisLockError(await waiting, 'LOCK_CLOSED')).toBe(true);
    expect(
      isRedisLockError(await locks.acquire('lock:9').catch((error: unknown) => error), 'LOCK_CLOSED'),
    ).toBe(true);
    expect(locks.held()).toHaveLength(1);
    go.open();
    expect((await running).text).toBe('finished');
    await closed;
    expect(locks.held()).toHaveLength(0);
  });

  it('aborts what does not finish within drainTimeout', async () => {
    await start({ shutdown: { drainTimeout: 50 } });
    const locks = app.get(LockService);
    const aborted = gate();
    const ended = locks
      .withLock('lock:9', (lock) => {
        lock.signal.addEventListener('abort', aborted.open);
        return aborted.opened;
      })
      .catch((error: unknown) => error);
    await waitFor(() => locks.held().length === 1);
    await app.close();
    await aborted.opened;
    expect(isRedisLockError(await ended, 'LOCK_LOST')).toBe(true);
    expect(locks.held()).toHaveLength(0);
  });
});

describe('the log', () => {
  const lines: string[] = [];
  let app: INestApplication;
  beforeEach(() => {
    lines.splice(0);
    for (const level of ['log', 'warn', 'error'] as const) {
      jest.spyOn(Logger.prototype, level).mockImplementation((...texts: unknown[]) => {
        lines.push(`${level} ${String(texts[0])}`);
      });
    }
  });
  afterEach(async () => {
    await app.close();
    jest.restoreAllMocks();
  });

  @Injectable()
  class Orders {
    constructor(readonly locks: LockService) {}

    @Idempotent({ key: 'k:<args.0>' })
    @DistributedLock('lock:<args.0>')
    async pay(_id: string): Promise<string> {
      return this.locks.current()?.token ?? '';
    }
  }

  const start = async (logging?: 'lifecycle' | 'problems'): Promise<Orders> => {
    app = await startApp('Express', {
      imports: [RedisLockModule.forRoot({ backend: inMemoryBackend(), ...(logging ? { logging } : {}) })],
      providers: [Orders],
    });
    return app.get(Orders);
  };

  it("with 'lifecycle' holds every acquire, release, loss and replay with key and token", async () => {
    const orders = await start('lifecycle');
    const token = await orders.pay('1');
    await orders.pay('1');
    expect(lines).toContainEqual(expect.stringMatching(new RegExp(`^log acquired lock:1 .*token=${token}`)));
    expect(lines).toContainEqual(expect.stringMatching(new RegExp(`^log released lock:1 .*token=${token}`)));
    expect(lines).toContainEqual(expect.stringMatching(/^log record replayed idem:key:[0-9a-f]+ attempt=1/));
    const lost = orders.locks.withLock('lock:2', () => orders.locks.forceRelease('lock:2'));
    await expect(lost).rejects.toThrow(/was lost/);
    expect(lines).toContainEqual(expect.stringMatching(/^warn lost lock:2 .*token=[0-9a-f-]{36}/));
  });

  it('by default holds losses, and nothing about what goes well or is busy', async () => {
    const orders = await start();
    const held = await orders.locks.acquire('lock:1');
    await expect(orders.locks.acquire('lock:1', { waitTimeout: 0 })).rejects.toThrow(/is held/);
    await held.release();
    await orders.pay('1');
    expect(lines.filter((line) => line.includes('lock:1'))).toEqual([]);
    await expect(orders.locks.withLock('lock:2', () => orders.locks.forceRelease('lock:2'))).rejects.toThrow(
      /was lost/,
    );
    expect(lines).toContainEqual(expect.stringMatching(/^warn lost lock:2 /));
  });
});
