import { Body, Controller, Injectable, Post, type INestApplication } from '@nestjs/common';
import request from 'supertest';
import type { Lock } from '../../lib/lock/lock.js';
import { CurrentLock } from '../../lib/nest/decorators/current-lock.decorator.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { LockParam } from '../../lib/nest/decorators/lock-param.decorator.js';
import { LockService } from '../../lib/nest/lock.service.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { inMemoryBackend } from '../../lib/testing/index.js';
import { PLATFORMS, startApp } from './nest-platforms.js';

describe.each(PLATFORMS)('N16: both decorators on one method of %s', (platform) => {
  let app: INestApplication;
  let runs = 0;
  afterEach(() => app?.close());

  const Passing = (): MethodDecorator => (_target, _key, descriptor: PropertyDescriptor) => {
    const original = descriptor.value as (...args: unknown[]) => unknown;
    descriptor.value = new Proxy(original, {
      apply: (method, self, args) => Reflect.apply(method, self, args),
    });
    for (const key of Reflect.getMetadataKeys(original)) {
      Reflect.defineMetadata(key, Reflect.getMetadata(key, original), descriptor.value);
    }
  };

  @Injectable()
  class Payments {
    @DistributedLock('lock:<id>', { waitTimeout: 0 })
    @Idempotent({ key: 'pay:<id>' })
    async lockAbove(@LockParam('id') id: string, @CurrentLock() lock?: Lock): Promise<string> {
      runs += 1;
      return `${id} ${lock?.held}`;
    }

    @Idempotent({ key: 'pay:<id>' })
    @Passing()
    @DistributedLock('lock:<id>', { waitTimeout: 0 })
    async lockBelow(@LockParam('id') id: string, @CurrentLock() lock?: Lock): Promise<string> {
      runs += 1;
      return `${id} ${lock?.held}`;
    }
  }

  @Controller()
  class Callbacks {
    constructor(private readonly payments: Payments) {}

    @Post('above')
    @DistributedLock('lock:<id>', { waitTimeout: 0 })
    @Idempotent({ key: 'http:<id>' })
    above(@Body('id') id: string, @CurrentLock() lock: Lock): string {
      runs += 1;
      return `${id} ${lock.held}`;
    }

    @Idempotent({ key: 'http:<id>' })
    @Passing()
    @DistributedLock('lock:<id>', { waitTimeout: 0 })
    @Post('below')
    below(@Body('id') id: string, @CurrentLock() lock: Lock): string {
      runs += 1;
      return `${id} ${lock.held}`;
    }

    @Post('skip')
    @Idempotent({ key: 'skip:<id>' })
    @DistributedLock('lock:<id>', { onBusy: 'skip' })
    skip(@Body('id') id: string): string {
      runs += 1;
      return id;
    }

    @Post('plain/:how')
    plain(@Body('id') id: string, @Body('how') how: 'lockAbove' | 'lockBelow'): Promise<string> {
      return this.payments[how](id);
    }
  }

  beforeEach(async () => {
    runs = 0;
    app = await startApp(platform, {
      imports: [RedisLockModule.forRoot({ backend: inMemoryBackend() })],
      controllers: [Callbacks],
      providers: [Payments],
    });
  });
  const post = (path: string, body: object): request.Test =>
    request(app.getHttpServer()).post(path).send(body);

  it.each(['/above', '/below'])('%s: one execution, the replay needs no lock', async (path) => {
    await post(path, { id: '1' }).expect(201, '1 true');
    const held = await app.get(LockService).acquire('lock:1');
    const replay = await post(path, { id: '1' }).expect(201, '1 true');
    expect(replay.headers['idempotent-replayed']).toBe('true');
    await held.release();
    expect(runs).toBe(1);
  });

  it.each(['/above', '/below'])('%s: a busy lock frees the idempotency key', async (path) => {
    const held = await app.get(LockService).acquire('lock:1');
    expect((await post(path, { id: '1' }).expect(409)).body.code).toBe('LOCK_BUSY');
    await held.release();
    await post(path, { id: '1' }).expect(201, '1 true');
    expect(runs).toBe(1);
  });

  it('a run that was skipped is not taken for done', async () => {
    const held = await app.get(LockService).acquire('lock:1');
    await post('/skip', { id: '1' }).expect(201, '');
    await held.release();
    await post('/skip', { id: '1' }).expect(201, '1');
    expect(runs).toBe(1);
  });

  it.each(['lockAbove', 'lockBelow'])('%s on a plain method: the same', async (how) => {
    const call = (): request.Test => post('/plain/x', { id: '1', how });
    await call().expect(201, '1 true');
    const held = await app.get(LockService).acquire('lock:1');
    await call().expect(201, '1 true');
    expect(runs).toBe(1);
    expect((await post('/plain/x', { id: '2', how }).expect(201)).text).toBe('2 true');
    await held.release();
    expect(runs).toBe(2);
  });
});
