import { Controller, Get, Injectable, Param, type INestApplication } from '@nestjs/common';
import request from 'supertest';
import { inMemoryBackend } from '../../lib/testing/index.js';
import { PLATFORMS, startApp } from './nest-platforms.js';

/** What the test uses of one copy of the package. */
interface Copy {
  DistributedLock: (typeof import('../../lib/nest/decorators/distributed-lock.decorator.js'))['DistributedLock'];
  Idempotent: (typeof import('../../lib/nest/decorators/idempotent.decorator.js'))['Idempotent'];
  CurrentLock: (typeof import('../../lib/nest/decorators/current-lock.decorator.js'))['CurrentLock'];
  LockParam: (typeof import('../../lib/nest/decorators/lock-param.decorator.js'))['LockParam'];
  InjectLockService: (typeof import('../../lib/nest/decorators/inject.decorators.js'))['InjectLockService'];
  RedisLockModule: (typeof import('../../lib/nest/redis-lock.module.js'))['RedisLockModule'];
  LockService: (typeof import('../../lib/nest/lock.service.js'))['LockService'];
  withoutLocks: (typeof import('../../lib/nest/testing-hooks.js'))['withoutLocks'];
  LockBusyError: (typeof import('../../lib/errors.js'))['LockBusyError'];
}

/** A second evaluation of our own files, as `import` beside `require` makes one; Nest stays one. */
function copyOfPackage(): Copy {
  let copy!: Copy;
  jest.isolateModules(() => {
    for (const shared of ['@nestjs/common', '@nestjs/core', 'rxjs']) {
      jest.doMock(shared, () => SHARED[shared as keyof typeof SHARED]);
    }
    copy = {
      ...require('../../lib/nest/decorators/distributed-lock.decorator.js'),
      ...require('../../lib/nest/decorators/idempotent.decorator.js'),
      ...require('../../lib/nest/decorators/current-lock.decorator.js'),
      ...require('../../lib/nest/decorators/lock-param.decorator.js'),
      ...require('../../lib/nest/decorators/inject.decorators.js'),
      ...require('../../lib/nest/redis-lock.module.js'),
      ...require('../../lib/nest/lock.service.js'),
      ...require('../../lib/nest/testing-hooks.js'),
      ...require('../../lib/errors.js'),
    } as Copy;
  });
  return copy;
}

const SHARED = {
  '@nestjs/common': require('@nestjs/common') as unknown,
  '@nestjs/core': require('@nestjs/core') as unknown,
  rxjs: require('rxjs') as unknown,
};

const first = copyOfPackage();
const second = copyOfPackage();

type Held = { keys: readonly string[] } | undefined;

describe.each(PLATFORMS)('N28: two copies of the package in one process of %s', (platform) => {
  let app: INestApplication;
  afterEach(() => app?.close());

  it('are two copies', () => {
    expect(first.DistributedLock).not.toBe(second.DistributedLock);
    expect(first.LockService).not.toBe(second.LockService);
  });

  it('take one lock per call, with the decorators of one and the module of the other', async () => {
    @Injectable()
    class Service {
      @second.DistributedLock('service:<id>')
      async pay(@second.LockParam('id') id: string, @second.CurrentLock() lock?: Held): Promise<string> {
        return `${id} ${lock?.keys.join()}`;
      }
    }
    @Controller()
    class Orders {
      constructor(
        private readonly service: Service,
        @second.InjectLockService()
        private readonly locks: { withLock: Copy['LockService']['prototype']['withLock'] },
      ) {}

      @Get('mixed/:id')
      @second.Idempotent({ header: 'X-Key' })
      @first.DistributedLock('lock:<id>')
      async mixed(@Param('id') id: string, @first.CurrentLock() lock: Held): Promise<string> {
        return `${lock?.keys.join()} ${await this.service.pay(id)}`;
      }

      @Get('nested/:id')
      @second.DistributedLock('lock:<id>')
      async nested(@Param('id') id: string): Promise<string> {
        return this.locks.withLock(`lock:${id}`, () => 'joined', { waitTimeout: 0 });
      }

      @Get('busy')
      @first.DistributedLock('lock:1')
      async busy(): Promise<never> {
        throw new second.LockBusyError(['other']);
      }
    }
    app = await startApp(platform, {
      imports: [first.RedisLockModule.forRoot({ backend: inMemoryBackend() })],
      controllers: [Orders],
      providers: [Service],
    });
    const acquired: string[] = [];
    app.get(first.LockService).events.subscribe(({ type, key }) => type === 'acquired' && acquired.push(key));
    const http = request(app.getHttpServer());
    await http.get('/mixed/7').set('X-Key', 'k').expect(200, 'lock:7 7 service:7');
    expect(acquired.splice(0)).toEqual(['lock:7', 'service:7']);
    await http.get('/nested/8').expect(200, 'joined');
    expect((await http.get('/busy').expect(409)).body.code).toBe('LOCK_BUSY');
    expect(await second.withoutLocks(() => app.get(Service).pay('9'))).toBe('9 undefined');
  });

  it('refuse both modules under one name, and share one interceptor under two', async () => {
    const imports = [first, second].map(({ RedisLockModule }) =>
      RedisLockModule.forRoot({ backend: inMemoryBackend() }),
    );
    await expect(startApp(platform, { imports })).rejects.toThrow(/registered twice/);

    @Controller()
    class Orders {
      @Get()
      @first.DistributedLock('lock:1', { instance: 'second' })
      get(@first.CurrentLock() lock: Held): string {
        return String(lock?.keys);
      }
    }
    app = await startApp(platform, {
      imports: [
        first.RedisLockModule.forRoot({ backend: inMemoryBackend() }),
        second.RedisLockModule.forRoot({ backend: inMemoryBackend(), name: 'second' }),
      ],
      controllers: [Orders],
    });
    await request(app.getHttpServer()).get('/').expect(200, 'lock:1');
  });
});
