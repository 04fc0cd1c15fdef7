import {
  Body,
  CanActivate,
  Controller,
  createParamDecorator,
  Get,
  HttpCode,
  Injectable,
  Param,
  Post,
  RequestMethod,
  Scope,
  UseGuards,
  type INestApplication,
} from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import request from 'supertest';
import type { Lock } from '../../lib/lock/lock.js';
import { CurrentLock } from '../../lib/nest/decorators/current-lock.decorator.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { LockService } from '../../lib/nest/lock.service.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { inMemoryBackend } from '../../lib/testing/index.js';
import { gate, PLATFORMS, startApp, type AppOptions, type Platform } from './nest-platforms.js';

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

describe.each(PLATFORMS)('@DistributedLock on handlers of %s', (platform) => {
  let app: INestApplication;
  const http = (): ReturnType<typeof request> => request(app.getHttpServer());
  const locks = (): LockService => app.get(LockService);
  afterEach(() => app?.close());

  describe('position among decorators', () => {
    class Open implements CanActivate {
      canActivate(): boolean {
        return true;
      }
    }
    /** As transaction libraries do it: replaces the method and copies its metadata. */
    const Transactional = (): MethodDecorator => (_target, _key, descriptor: PropertyDescriptor) => {
      const original = descriptor.value as (...args: unknown[]) => unknown;
      descriptor.value = new Proxy(original, {
        apply: (method, self, args) => Reflect.apply(method, self, args),
      });
      for (const key of Reflect.getMetadataKeys(original)) {
        Reflect.defineMetadata(key, Reflect.getMetadata(key, original), descriptor.value);
      }
    };
    const LOCK = (): MethodDecorator => DistributedLock('lock:<id>', { reentrant: false });
    const others = (): MethodDecorator[] => [
      Get(':id'),
      UseGuards(Open),
      ApiOperation({ summary: 'one' }),
      Transactional(),
      HttpCode(202),
    ];

    it.each([0, 1, 2, 3, 4, 5])('N1: %i decorators above ours change nothing', async (above) => {
      const list = others();
      list.splice(above, 0, LOCK());
      const seen: Lock[] = [];
      class Orders {
        pay(id: string, lock: Lock): string {
          seen.push(lock);
          return id;
        }
      }
      Param('id')(Orders.prototype, 'pay', 0);
      CurrentLock()(Orders.prototype, 'pay', 1);
      const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'pay') as PropertyDescriptor;
      for (const decorate of list.reverse()) decorate(Orders.prototype, 'pay', descriptor);
      Object.defineProperty(Orders.prototype, 'pay', descriptor);
      Controller('orders')(Orders);

      app = await appOf(platform, [Orders]);
      const acquired: string[] = [];
      locks().events.subscribe(({ type, key }) => type === 'acquired' && acquired.push(key));
      await http().get('/orders/7').expect(202, '7');
      expect(acquired).toEqual(['lock:7']);
      expect(seen[0]?.keys).toEqual(['lock:7']);
      expect(Orders.prototype.pay.name).toBe('pay');
      expect(Orders.prototype.pay.length).toBe(2);
      expect(Reflect.getMetadata('path', Orders.prototype.pay)).toBe(':id');
      expect(Reflect.getMetadata('method', Orders.prototype.pay)).toBe(RequestMethod.GET);
      expect(Reflect.getMetadata('swagger/apiOperation', Orders.prototype.pay)).toMatchObject({
        summary: 'one',
      });
    });
  });

  describe('other calls of the same method are calls of their own', () => {
    it('a recursion, a call of another handler, and a call that outlives the request', async () => {
      const later = gate();
      let detached: Promise<unknown> = Promise.resolve();
      @Controller()
      class Orders {
        @Get('again/:id')
        @DistributedLock('lock:<id>')
        async again(@Param('id') id: string): Promise<string> {
          return id === '1' ? `1+${await this.again('2')}` : id;
        }

        @Get('other/:id')
        @DistributedLock('other:<id>')
        async other(@Param('id') id: string): Promise<string> {
          return this.again(id);
        }

        @Post('body')
        @DistributedLock('body:<body.id>:<tenant>')
        async body(@Body() body: { id: string }, @Body('tenant') tenant: string): Promise<string> {
          return `${body.id}${tenant}`;
        }

        @Get('direct')
        async direct(): Promise<string> {
          return this.body({ id: '1' }, 't');
        }

        @Get('detached')
        @DistributedLock('lock:detached')
        async detached(): Promise<void> {
          detached = later.opened.then(() => this.again('3'));
        }
      }
      app = await appOf(platform, [Orders]);
      const acquired: string[] = [];
      locks().events.subscribe(({ type, key }) => type === 'acquired' && acquired.push(key));
      await http().get('/again/1').expect(200, '1+2');
      expect(acquired.splice(0)).toEqual(['lock:1', 'lock:2']);
      await http().get('/other/5').expect(200, '5');
      expect(acquired.splice(0)).toEqual(['other:5', 'lock:5']);
      await http().get('/direct').expect(200, '1t');
      expect(acquired.splice(0)).toEqual(['body:1:t']);
      await http().get('/detached').expect(200);
      later.open();
      expect(await detached).toBe('3');
      expect(acquired.splice(0)).toEqual(['lock:detached', 'lock:3']);
    });
  });

  it('guards request-scoped controllers, with the parameters of custom decorators', async () => {
    const User = createParamDecorator(() => 'me');
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest {}
    @Controller()
    class Orders {
      constructor(private readonly per: PerRequest) {}

      @Get(':id')
      @DistributedLock('lock:<id>')
      get(@User() user: string, @CurrentLock() lock: Lock, @Param('id') id: string): string {
        return [user, id, lock.keys.join(), this.per instanceof PerRequest].join(' ');
      }
    }
    app = await appOf(platform, [Orders], [PerRequest]);
    await http().get('/7').expect(200, 'me 7 lock:7 true');
  });

  it('guards inherited handlers, and those of an override that is decorated', async () => {
    class Base {
      @Get('inherited/:id')
      @DistributedLock('base:<id>')
      inherited(@CurrentLock() lock: Lock): string {
        return lock.keys.join();
      }

      @Get('overridden/:id')
      @DistributedLock('base:<id>')
      overridden(@CurrentLock() lock: Lock): string {
        return lock.keys.join();
      }
    }
    @Controller()
    class Orders extends Base {
      @Get('overridden/:id')
      @DistributedLock('own:<id>')
      override overridden(@CurrentLock() lock: Lock): string {
        return lock.keys.join();
      }
    }
    app = await appOf(platform, [Orders]);
    await http().get('/inherited/7').expect(200, 'base:7');
    await http().get('/overridden/7').expect(200, 'own:7');
  });
});
