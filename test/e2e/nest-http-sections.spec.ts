import {
  Controller,
  Get,
  Sse,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
} from '@nestjs/common';
import { once } from 'node:events';
import http, { type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { defer, from, map, mergeMap, Observable, retry, timeout, timer } from 'rxjs';
import request from 'supertest';
import type { Lock } from '../../lib/lock/lock.js';
import { CurrentLock } from '../../lib/nest/decorators/current-lock.decorator.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { LockService } from '../../lib/nest/lock.service.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { inMemoryBackend } from '../../lib/testing/index.js';
import { waitFor } from '../support/wait-for.js';
import { Concurrency, gate, PLATFORMS, startApp, type AppOptions, type Platform } from './nest-platforms.js';

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

describe.each(PLATFORMS)('the section of a locked handler on %s', (platform) => {
  let app: INestApplication;
  const http = (): ReturnType<typeof request> => request(app.getHttpServer());
  const locks = (): LockService => app.get(LockService);
  afterEach(() => app?.close());

  describe('exclusion', () => {
    it('lets one request at a time run, whatever the handler returns', async () => {
      const sections = new Concurrency();
      const work = (): Promise<string> =>
        sections.run(() => new Promise((done) => setTimeout(done, 15, 'done')));
      @Controller()
      class Orders {
        @Get('promise')
        @DistributedLock('lock:1')
        promise(): Promise<string> {
          return work();
        }

        @Get('observable')
        @DistributedLock('lock:1')
        observable(): Observable<string> {
          return timer(5).pipe(mergeMap(() => from(work())));
        }

        @Get('thenable')
        @DistributedLock('lock:1')
        thenable(): PromiseLike<string> {
          return { then: (yes, no) => work().then(yes, no) };
        }
      }
      app = await appOf(platform, [Orders]);
      const paths = ['/promise', '/observable', '/thenable'];
      const answers = await Promise.all([...paths, ...paths].map((path) => http().get(path)));
      expect(answers.map(({ text }) => text)).toEqual(answers.map(() => 'done'));
      expect(sections).toMatchObject({ most: 1, total: 6, now: 0 });
    });

    it('N4: goes on when the client of an Observable is gone', async () => {
      const started = gate();
      const go = gate();
      const finished: string[] = [];
      @Controller()
      class Orders {
        @Get()
        @DistributedLock('lock:1', { waitTimeout: 0 })
        get(): Observable<string> {
          started.open();
          return from(go.opened).pipe(
            map(() => {
              finished.push('done');
              return 'done';
            }),
          );
        }
      }
      app = await appOf(platform, [Orders]);
      await app.listen(0, '127.0.0.1');
      const { port } = app.getHttpServer().address() as AddressInfo;
      const client = httpGet(port);
      await started.opened;
      const closed = new Promise((resolve) => client.once('close', resolve));
      client.destroy();
      await closed;
      await expectBusy(port);
      go.open();
      await waitFor(() => finished.length === 1 && locks().held().length === 0);
    });

    it('@Sse ends with its subscriber', async () => {
      @Controller()
      class Orders {
        @Sse('events')
        @DistributedLock('lock:1', { waitTimeout: 0 })
        events(): Observable<{ data: string }> {
          return timer(0, 10).pipe(map((n) => ({ data: `n${n}` })));
        }
      }
      app = await appOf(platform, [Orders]);
      await app.listen(0, '127.0.0.1');
      const { port } = app.getHttpServer().address() as AddressInfo;
      const client = httpGet(port, '/events');
      const [response] = (await once(client, 'response')) as [IncomingMessage];
      await once(response, 'data');
      expect(locks().held()).toHaveLength(1);
      client.destroy();
      await waitFor(() => locks().held().length === 0);
    });
  });

  describe('interceptors', () => {
    const events: string[] = [];
    const spy = (name: string): NestInterceptor => ({
      intercept: (_context: ExecutionContext, next: CallHandler) =>
        defer(() => {
          events.push(`${name} begins under ${app.get(LockService).held().length}`);
          return next.handle().pipe(
            mergeMap(async (value: unknown) => {
              await new Promise((done) => setImmediate(done));
              events.push(`${name} commits under ${app.get(LockService).held().length}`);
              return value;
            }),
          );
        }),
    });
    beforeEach(() => events.splice(0));

    it('N15, N23: stand inside the lock, wherever they are registered', async () => {
      @Controller()
      class Orders {
        @Get()
        @UseInterceptors(spy('method'))
        @DistributedLock('lock:1')
        get(): string {
          return 'ok';
        }
      }
      const earlier = class Earlier {};
      const later = class Later {};
      const inModule = (name: string): { provide: string; useValue: NestInterceptor } => ({
        provide: 'APP_INTERCEPTOR',
        useValue: spy(name),
      });
      app = await startApp(
        platform,
        {
          imports: [
            { module: earlier, providers: [inModule('earlier')] },
            RedisLockModule.forRoot({ backend: inMemoryBackend() }),
            RedisLockModule.forRoot({ backend: inMemoryBackend(), name: 'second' }),
            { module: later, providers: [inModule('later')] },
          ],
          providers: [inModule('root')],
          controllers: [Orders],
        },
        { configure: (created) => created.useGlobalInterceptors(spy('global')) },
      );
      await http().get('/').expect(200, 'ok');
      const names = ['earlier', 'later', 'root', 'global', 'method'];
      expect(events.filter((event) => event.includes('begins')).sort()).toEqual(
        names.map((name) => `${name} begins under 1`).sort(),
      );
      expect(events.filter((event) => event.includes('commits')).sort()).toEqual(
        names.map((name) => `${name} commits under 1`).sort(),
      );
      expect(locks().held()).toHaveLength(0);
    });

    it('N24: a time-out answers at once, and the lock is kept until the handler ends', async () => {
      const go = gate();
      const ended = gate();
      @Controller()
      class Orders {
        @Get()
        @UseInterceptors({ intercept: (_: unknown, next: CallHandler) => next.handle().pipe(timeout(20)) })
        @DistributedLock('lock:1', { waitTimeout: 0 })
        async get(): Promise<string> {
          await go.opened;
          ended.open();
          return 'late';
        }
      }
      app = await appOf(platform, [Orders]);
      await http().get('/').expect(500);
      expect(locks().held()).toHaveLength(1);
      expect((await http().get('/').expect(409)).body.code).toBe('LOCK_BUSY');
      go.open();
      await ended.opened;
      await waitFor(() => locks().held().length === 0);
    });

    it('N24: a time-out around an Observable frees the lock with its subscription', async () => {
      @Controller()
      class Orders {
        @Get()
        @UseInterceptors({ intercept: (_: unknown, next: CallHandler) => next.handle().pipe(timeout(20)) })
        @DistributedLock('lock:1', { waitTimeout: 0 })
        get(): Observable<number> {
          return timer(3_600_000);
        }
      }
      app = await appOf(platform, [Orders]);
      await http().get('/').expect(500);
      await waitFor(() => locks().held().length === 0);
    });

    it('N24: a retry is one acquisition', async () => {
      let runs = 0;
      const tokens = new Set<string>();
      @Controller()
      class Orders {
        @Get()
        @UseInterceptors({ intercept: (_: unknown, next: CallHandler) => next.handle().pipe(retry(2)) })
        @DistributedLock('lock:1', { reentrant: false, waitTimeout: 0 })
        async get(@CurrentLock() lock: Lock): Promise<string> {
          tokens.add(lock.token);
          runs += 1;
          if (runs < 3) throw new Error('again');
          return 'third';
        }
      }
      app = await appOf(platform, [Orders]);
      const acquired: string[] = [];
      locks().events.subscribe(({ type, key }) => type === 'acquired' && acquired.push(key));
      await http().get('/').expect(200, 'third');
      expect(runs).toBe(3);
      expect(tokens.size).toBe(1);
      expect(acquired).toEqual(['lock:1']);
    });
  });
});

function httpGet(port: number, path = '/'): http.ClientRequest {
  const client = http.get({ host: '127.0.0.1', port, path });
  client.on('error', () => undefined);
  return client;
}

async function expectBusy(port: number): Promise<void> {
  const [response] = (await once(httpGet(port), 'response')) as [IncomingMessage];
  expect(response.statusCode).toBe(409);
  response.resume();
  await once(response, 'end');
}
