import {
  Controller,
  Get,
  Header,
  NotFoundException,
  Param,
  Res,
  type INestApplication,
} from '@nestjs/common';
import { defer, Observable, of } from 'rxjs';
import request from 'supertest';
import { LockBusyError, LockLostError, QuotaExceededError } from '../../lib/errors.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { LockService } from '../../lib/nest/lock.service.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { REDIS_LOCK_ERROR_TABLE } from '../../lib/nest/tokens.js';
import { inMemoryBackend } from '../../lib/testing/index.js';
import { PLATFORMS, startApp, type AppOptions, type Platform } from './nest-platforms.js';

/** The type of a class that a test declares inside itself. */
type Class = new (...args: never[]) => object;

async function appOf(
  platform: Platform,
  controllers: Class[],
  providers: Array<Class | { provide: string; useValue: unknown }> = [],
  options: AppOptions = {},
): Promise<INestApplication> {
  return startApp(
    platform,
    { imports: [RedisLockModule.forRoot({ backend: inMemoryBackend() })], controllers, providers },
    options,
  );
}

describe.each(PLATFORMS)('the answer of a locked handler on %s', (platform) => {
  let app: INestApplication;
  const http = (): ReturnType<typeof request> => request(app.getHttpServer());
  const locks = (): LockService => app.get(LockService);
  afterEach(() => app?.close());

  describe('the answer', () => {
    @Controller()
    class Answers {
      constructor(private readonly service: LockService) {}

      @Get('text/:id')
      @Header('content-type', 'text/plain')
      @DistributedLock('lock:<id>', { waitTimeout: 0 })
      text(@Param('id') id: string): string {
        return id;
      }

      @Get('missing/:id')
      @DistributedLock('lock:<id>')
      missing(): never {
        throw new NotFoundException({ reason: 'no such order' });
      }

      @Get('void/:id')
      @DistributedLock('lock:<id>')
      nothing(): void {}

      @Get('null/:id')
      @DistributedLock('lock:<id>')
      async nil(): Promise<null> {
        return null;
      }

      @Get('stream/:id')
      @DistributedLock('lock:<id>')
      stream(): Observable<number> {
        return of(1, 2, 3);
      }

      @Get('later/:id')
      @DistributedLock('lock:<id>')
      async later(): Promise<Observable<number>> {
        return of(1, 2);
      }

      @Get('res/:id')
      @DistributedLock('lock:<id>')
      res(@Res() reply: { status(code: number): { send(body: string): void } }): void {
        reply.status(201).send('mine');
      }

      @Get('short/:id')
      @DistributedLock('lock:<id>', { waitTimeout: 30 })
      short(): string {
        return 'never';
      }

      @Get('shape/:id')
      @DistributedLock('lock:<id>')
      shape(): never {
        throw Object.assign(new Error('mine'), { code: 'LOCK_BUSY', keys: ['k'], name: 'LockBusyError' });
      }

      @Get('inner/:id')
      @DistributedLock('lock:<id>', { onBusy: 'skip' })
      async inner(): Promise<unknown> {
        return this.service.withLock('held', () => 'never', { waitTimeout: 0, reentrant: false });
      }

      @Get('bare/quota')
      quota(): never {
        throw new QuotaExceededError('quota:1', 5, 3);
      }

      @Get('bare/lost')
      lost(): never {
        const details = { reason: 'taken', token: 't', fencingToken: 1, heldMs: 5 } as const;
        throw new LockLostError(['lock:secret'], details);
      }

      @Get('bare/busy')
      busy(): Observable<never> {
        return defer(() => {
          throw new LockBusyError(['lock:1']);
        });
      }
    }

    beforeEach(async () => {
      app = await appOf(platform, [Answers]);
    });

    it('N2: is 409 with Retry-After and the code when the lock is busy', async () => {
      const held = await locks().acquire('lock:7');
      const answer = await http().get('/text/7').expect(409);
      expect(answer.body).toEqual({ statusCode: 409, code: 'LOCK_BUSY', message: expect.any(String) });
      expect(answer.headers['retry-after']).toBe('1');
      expect((await http().get('/short/7').expect(409)).body.code).toBe('LOCK_TIMEOUT');
      await held.release();
      await http().get('/text/7').expect(200, '7');
    });

    it("N3: is the handler's own error, unchanged", async () => {
      const { body } = await http().get('/missing/7').expect(404);
      expect(body).toEqual({ reason: 'no such order' });
      expect(locks().held()).toHaveLength(0);
    });

    it("N19: is the application's own error also when it looks like one of ours", async () => {
      await http().get('/shape/7').expect(500);
    });

    it('is what the handler gave: nothing, null, the last value of a stream, its own reply', async () => {
      await http().get('/void/7').expect(200, '');
      await http().get('/null/7').expect(200);
      expect((await http().get('/stream/7').expect(200)).text).toBe('3');
      expect((await http().get('/later/7').expect(200)).text).toBe('2');
      expect((await http().get('/res/7').expect(201)).text).toBe('mine');
    });

    it('does not apply onBusy to a lock that the handler itself did not get', async () => {
      const held = await locks().acquire('held');
      expect((await http().get('/inner/7').expect(409)).body.code).toBe('LOCK_BUSY');
      await held.release();
    });

    it('maps the errors of undecorated handlers too, and tells nothing about keys with a 500', async () => {
      expect((await http().get('/bare/quota').expect(409)).body.code).toBe('QUOTA_EXCEEDED');
      expect((await http().get('/bare/busy').expect(409)).headers['retry-after']).toBe('1');
      const lost = await http().get('/bare/lost').expect(500);
      expect(lost.body).toEqual({ statusCode: 500, code: 'LOCK_LOST', message: expect.any(String) });
      expect(lost.text).not.toContain('secret');
    });

    it('is 400 when the key cannot be built, and the handler does not run', async () => {
      const answer = await http().get('/text/%20?id=other').expect(400);
      expect(answer.body.code).toBe('LOCK_KEY');
    });
  });

  it('takes changed answers from the error table of the application', async () => {
    @Controller()
    class Orders {
      @Get()
      @DistributedLock('lock:1', { waitTimeout: 0 })
      get(): string {
        return 'never';
      }
    }
    const module = class Table {};
    app = await startApp(platform, {
      imports: [
        RedisLockModule.forRoot({ backend: inMemoryBackend() }),
        {
          module,
          global: true,
          providers: [
            { provide: REDIS_LOCK_ERROR_TABLE, useValue: { LOCK_BUSY: { status: 423, retryAfter: 7 } } },
          ],
          exports: [REDIS_LOCK_ERROR_TABLE],
        },
      ],
      controllers: [Orders],
    });
    const held = await locks().acquire('lock:1');
    const answer = await http().get('/').expect(423);
    expect(answer.headers['retry-after']).toBe('7');
    await held.release();
  });

  it("onBusy: 'skip' answers with nothing, a function with what it returns", async () => {
    @Controller()
    class Orders {
      @Get('skip')
      @DistributedLock('lock:1', { onBusy: 'skip' })
      skip(): string {
        return 'ran';
      }

      @Get('fn/:id')
      @DistributedLock('lock:1', {
        waitTimeout: 0,
        onBusy: (busy, call) => ({ code: busy.code, id: call.params.id }),
      })
      fn(): string {
        return 'ran';
      }
    }
    app = await appOf(platform, [Orders]);
    await http().get('/skip').expect(200, 'ran');
    const held = await locks().acquire('lock:1');
    await http().get('/skip').expect(200, '');
    await http().get('/fn/7').expect(200, { code: 'LOCK_BUSY', id: '7' });
    await held.release();
    await http().get('/fn/7').expect(200, 'ran');
  });

  it('onLost: exclusion lost while the handler ran is 500, or reported', async () => {
    @Controller()
    class Orders {
      constructor(private readonly service: LockService) {}

      @Get('throw')
      @DistributedLock('lock:1')
      async lost(): Promise<string> {
        await this.service.forceRelease('lock:1');
        return 'done';
      }

      @Get('report')
      @DistributedLock('lock:1', { onLost: 'report' })
      async reported(): Promise<string> {
        await this.service.forceRelease('lock:1');
        return 'done';
      }
    }
    app = await appOf(platform, [Orders]);
    expect((await http().get('/throw').expect(500)).body.code).toBe('LOCK_LOST');
    await http().get('/report').expect(200, 'done');
  });
});
