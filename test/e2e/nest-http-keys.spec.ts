import { Controller, HttpException, Post, type INestApplication } from '@nestjs/common';

import request from 'supertest';
import type { Lock } from '../../lib/lock/lock.js';
import type { CallContext } from '../../lib/nest/call-context.js';
import { CurrentLock } from '../../lib/nest/decorators/current-lock.decorator.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { LockService } from '../../lib/nest/lock.service.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
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

describe.each(PLATFORMS)('the key of a locked handler on %s', (platform) => {
  let app: INestApplication;
  const http = (): ReturnType<typeof request> => request(app.getHttpServer());
  const locks = (): LockService => app.get(LockService);
  afterEach(() => app?.close());

  describe('the key', () => {
    const run = jest.fn();
    let make: (call: CallContext) => unknown;

    @Controller()
    class Orders {
      @Post('fn')
      @DistributedLock((call) => make(call) as string)
      byFunction(): void {
        run();
      }

      @Post('bare')
      @DistributedLock('lock:<orderId>')
      bare(@CurrentLock() lock: Lock): readonly string[] {
        run();
        return lock.keys;
      }

      @Post('plain/:id')
      @DistributedLock('lock:<params.id>:<headers.X-Tenant>:<query.q>:<body.a.b>')
      everything(@CurrentLock() lock: Lock): readonly string[] {
        return lock.keys;
      }

      @Post('several')
      @DistributedLock(({ body }) => (body as { ids: string[] }).ids.map((id) => `lock:${id}`))
      several(@CurrentLock() lock: Lock): readonly string[] {
        return lock.keys;
      }
    }

    beforeEach(async () => {
      run.mockClear();
      app = await appOf(platform, [Orders]);
    });

    it.each([
      ['an empty list', []],
      ['undefined', undefined],
      ['empty text', ''],
      ['a list with empty text', ['a', '']],
      ['a number', 7],
      ['a promise', Promise.resolve('a')],
      ['braces that form no tag', 'a}b'],
    ])('N5: a function that gives %s is a LockKeyError', async (_, value) => {
      make = () => value;
      const { body } = await http().post('/fn').expect(400);
      expect(body.code).toBe('LOCK_KEY');
      expect(run).not.toHaveBeenCalled();
    });

    it('a function that reads what the caller left out is a LockKeyError; its own error passes', async () => {
      make = ({ body }) => `lock:${(body as { order: { id: string } }).order.id}`;
      expect((await http().post('/fn').send({}).expect(400)).body.code).toBe('LOCK_KEY');
      make = () => {
        throw new HttpException('mine', 418);
      };
      await http().post('/fn').expect(418);
      expect(run).not.toHaveBeenCalled();
    });

    it('a function sees the request and the context of Nest', async () => {
      make = ({ headers, context }) => `lock:${String(headers['x-tenant'])}:${context?.getHandler().name}`;
      const acquired: string[] = [];
      locks().events.subscribe(({ type, key }) => type === 'acquired' && acquired.push(key));
      await http().post('/fn').set('X-Tenant', 't1').expect(201);
      expect(acquired).toEqual(['lock:t1:byFunction']);
    });

    it.each([
      ['missing', {}],
      ['an object', { orderId: { id: 1 } }],
      ['an array', { orderId: ['o1'] }],
      ['null', { orderId: null }],
    ])('N6, N8: a value that is %s is 400', async (_, body) => {
      expect((await http().post('/bare').send(body).expect(400)).body.code).toBe('LOCK_KEY');
      expect(run).not.toHaveBeenCalled();
    });

    it('N6: other values are encoded or hashed', async () => {
      const key = async (orderId: unknown): Promise<string> =>
        ((await http().post('/bare').send({ orderId }).expect(201)).body as string[]).join();
      expect(await key('a:b')).toBe('lock:a%3Ab');
      expect(await key('{x}')).toBe('lock:%7Bx%7D');
      expect(await key('x'.repeat(600))).toMatch(/^lock:x+<sha256>[0-9a-f]{64}$/);
      expect(await key(7)).toBe('lock:7');
    });

    it('N21: nobody chooses another lock by adding a query parameter', async () => {
      await http().post('/bare?orderId=x').send({ orderId: 'o1' }).expect(400);
      await http().post('/bare?orderId=o1').send({ orderId: 'o1' }).expect(201, ['lock:o1']);
    });

    it('is filled from params, headers, query and body', async () => {
      await http()
        .post('/plain/1?q=3')
        .set('x-tenant', '2')
        .send({ a: { b: 4 } })
        .expect(201, ['lock:1:2:3:4']);
    });

    it('may be several', async () => {
      await http()
        .post('/several')
        .send({ ids: ['b', 'a', 'b'] })
        .expect(201, ['lock:a', 'lock:b']);
      expect(locks().held()).toHaveLength(0);
    });
  });
});
