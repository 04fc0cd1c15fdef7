import {
  Body,
  Controller,
  Get,
  Injectable,
  Module,
  Next,
  Post,
  Render,
  Res,
  Scope,
  Sse,
  type ModuleMetadata,
} from '@nestjs/common';
import { Mutation, ResolveField, Resolver, Subscription } from '@nestjs/graphql';
import { EventPattern, MessagePattern } from '@nestjs/microservices';
import { Test, type TestingModule } from '@nestjs/testing';
import { SubscribeMessage } from '@nestjs/websockets';
import { of, type Observable } from 'rxjs';
import { isRedisLockError } from '../../lib/errors.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { LockParam } from '../../lib/nest/decorators/lock-param.decorator.js';
import type { RedisLockModuleOptions } from '../../lib/nest/module-options.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { getLockServiceToken } from '../../lib/nest/tokens.js';
import { inMemoryBackend } from '../../lib/testing/index.js';

const open: TestingModule[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((module) => module.close()));
  jest.restoreAllMocks();
});

const forRoot = (options: RedisLockModuleOptions & { name?: string; isGlobal?: boolean } = {}) =>
  RedisLockModule.forRoot({ backend: inMemoryBackend(), ...options });

async function start(metadata: ModuleMetadata): Promise<TestingModule> {
  const module = await Test.createTestingModule(metadata).setLogger(silent).compile();
  open.push(module);
  return module.init();
}

const silent = { log() {}, error() {}, warn() {}, debug() {}, verbose() {}, fatal() {} };

/** What the start-up says when it fails. */
async function failure(metadata: ModuleMetadata): Promise<string> {
  return start(metadata).then(
    () => 'started',
    (error: Error) => error.message,
  );
}

const withModule = (metadata: ModuleMetadata): ModuleMetadata => ({
  ...metadata,
  imports: [forRoot(), ...(metadata.imports ?? [])],
});

@Injectable()
class Orders {
  @DistributedLock('lock:<id>')
  async pay(@LockParam('id') id: string): Promise<string> {
    return id;
  }
}

describe('a start-up fails, and names class and method, when', () => {
  it.each([
    ['a provider', Orders, undefined],
    ['a request-scoped provider', Orders, Scope.REQUEST],
    ['a transient provider', Orders, Scope.TRANSIENT],
  ])('N11: the module is not imported and %s is decorated', async (_, cls, scope) => {
    @Injectable({ ...(scope === undefined ? {} : { scope }) })
    class Scoped extends cls {}
    @Injectable()
    class User {
      constructor(readonly scoped: Scoped) {}
    }
    const message = await failure({ providers: [Scoped, User] });
    expect(message).toMatch(/Orders\.pay is decorated: import RedisLockModule\.forRoot\(\)/);
  });

  it('N11: the module is not imported and a controller is decorated', async () => {
    @Controller()
    class Shop {
      @Get()
      @DistributedLock('lock:1')
      get(): string {
        return '';
      }
    }
    expect(await failure({ controllers: [Shop] })).toMatch(/Shop\.get is decorated/);
  });

  it('N11: the module is not global and not imported where it is used', async () => {
    class Feature {}
    Module({ providers: [Orders] })(Feature);
    expect(await failure({ imports: [forRoot({ isGlobal: false }), Feature] })).toMatch(
      /Orders\.pay is decorated/,
    );
  });

  it("N13: a decorator names the instance 'c' and there are only 'a' and 'b'", async () => {
    @Injectable()
    class Named {
      @DistributedLock('lock:1', { instance: 'c' })
      async job(): Promise<void> {}
    }
    const imports = [forRoot({ name: 'a' }), forRoot({ name: 'b' })];
    const message = await failure({ imports, providers: [Named] });
    expect(message).toMatch(/Named\.job is decorated: there is no instance 'c'/);
    const byFactory = { provide: 'named', useFactory: () => new Named() };
    expect(await failure({ imports: [forRoot({ name: 'a' })], providers: [byFactory] })).toMatch(
      /Named\.job.*'c'/,
    );
  });

  it('N13: a name, or no name, is registered twice', async () => {
    expect(await failure({ imports: [forRoot({ name: 'a' }), forRoot({ name: 'a' })] })).toMatch(
      /registered twice under the name 'a'/,
    );
    expect(await failure({ imports: [forRoot(), forRoot()] })).toMatch(/registered twice without a name/);
  });

  it('N26: a wrapper above ours dropped the metadata', async () => {
    const Wrapper = (): MethodDecorator => (_target, _key, descriptor: PropertyDescriptor) => {
      const original = descriptor.value as (...args: unknown[]) => unknown;
      descriptor.value = function wrapped(this: unknown, ...args: unknown[]): unknown {
        return original.apply(this, args);
      };
    };
    class Wrapped {
      @Wrapper()
      @DistributedLock('lock:1')
      async job(): Promise<void> {}
    }
    expect(await failure(withModule({ providers: [Wrapped] }))).toMatch(
      /^Wrapped\.job: .*dropped its metadata/,
    );
    class Copied {
      @DistributedLock('lock:1')
      @Wrapper()
      async job(): Promise<void> {}
    }
    expect(await failure(withModule({ providers: [Copied] }))).toBe('started');
  });

  it('N29: a subclass overrides a decorated method without decorating it', async () => {
    class Override extends Orders {
      override async pay(id: string): Promise<string> {
        return id;
      }
    }
    class Grandchild extends Override {}
    for (const cls of [Override, Grandchild]) {
      expect(await failure(withModule({ providers: [cls] }))).toMatch(
        /^Override\.pay: overrides Orders\.pay/,
      );
    }
  });

  it('N29: a property of the object hides a decorated method', async () => {
    class Arrow extends Orders {
      override pay = async (id: string): Promise<string> => id;
    }
    expect(await failure(withModule({ providers: [Arrow] }))).toMatch(
      /^Arrow\.pay: a property hides Orders\.pay/,
    );
  });

  it('N29: a property hides a decorated method of a request-scoped or transient object: it is never made', async () => {
    for (const scope of [Scope.REQUEST, Scope.TRANSIENT]) {
      @Injectable({ scope })
      class Arrow extends Orders {
        override pay = async (id: string): Promise<string> => id;
      }
      const module = await start(withModule({ providers: [Arrow] }));
      await expect(module.resolve(Arrow)).rejects.toMatchObject({
        code: 'LOCK_CONFIG',
        message: expect.stringMatching(/^Arrow\.pay: a property hides Orders\.pay/),
      });
    }
  });

  it('a microservice, WebSocket or GraphQL handler asks for what a message has not', async () => {
    @Resolver()
    class Handlers {
      @MessagePattern('pay')
      @DistributedLock('lock:<body.id>')
      message(): number {
        return 1;
      }

      @Idempotent({ header: 'X-Request-Id' })
      @EventPattern('paid')
      async event(_data: unknown): Promise<void> {}

      @MessagePattern('reply')
      @Idempotent({ key: 'r:<data.id>', inFlightReply: () => 'SUCCESS' })
      async reply(): Promise<void> {}

      @Mutation(() => String)
      @Idempotent({ key: 'm:<params.id>' })
      async mutation(): Promise<void> {}

      @ResolveField(() => String)
      @Idempotent()
      async field(): Promise<void> {}

      @Subscription(() => String)
      @DistributedLock('lock:1')
      subscription(): string {
        return '';
      }

      @MessagePattern('fine')
      @Idempotent({ key: 'f:<id>:<data.a>:<user.id>' })
      @DistributedLock('lock:<args.0.id>')
      fine(): string {
        return '';
      }

      @Mutation(() => String)
      @Idempotent({ scope: '<headers.x-user>' })
      fineToo(): string {
        return '';
      }

      @SubscribeMessage('pay')
      @Idempotent()
      socket(): void {}
    }
    const message = await failure(withModule({ providers: [Handlers] }));
    expect(message).toMatch(
      /Handlers\.message: <body\.id> in '.*' cannot be found in a microservice handler/,
    );
    expect(message).toMatch(
      /Handlers\.event: is @Idempotent by a header, but a microservice handler has none/,
    );
    expect(message).toMatch(/Handlers\.reply: has an inFlightReply/);
    expect(message).toMatch(/Handlers\.mutation: <params\.id> .* in a GraphQL handler/);
    expect(message).toMatch(/Handlers\.field: is @Idempotent by a header, but a GraphQL handler has none/);
    expect(message).toMatch(/Handlers\.subscription: is a GraphQL subscription/);
    expect(message).toMatch(/Handlers\.socket: is @Idempotent by a header, but a WebSocket handler/);
    expect(message).not.toMatch(/fine/);
  });

  it('a plain method is declared to return a value', async () => {
    class Values {
      @DistributedLock('lock:1')
      count(): number {
        return 1;
      }

      @DistributedLock('lock:1')
      list(): string[] {
        return [];
      }

      @DistributedLock('lock:1')
      nothing(): void {}

      @DistributedLock('lock:1')
      async promised(): Promise<number> {
        return 1;
      }

      @DistributedLock('lock:1')
      streamed(): Observable<number> {
        return of(1);
      }

      @DistributedLock('lock:1')
      either(): number | string {
        return 1;
      }
    }
    const message = await failure(withModule({ providers: [Values] }));
    expect(message.split('\n')).toHaveLength(2);
    expect(message).toMatch(/Values\.count: .*Number/);
    expect(message).toMatch(/Values\.list: .*Array/);
  });

  it('a template of a plain method names what no argument can give', async () => {
    class Templates {
      @DistributedLock('lock:<orderId>')
      async bare(_orderId: string): Promise<void> {}

      @DistributedLock('lock:<params.id>')
      async params(): Promise<void> {}

      @Idempotent({ key: 'k:<body.id>', scope: '<args.0>' })
      async idempotent(): Promise<void> {}

      @Idempotent()
      async header(): Promise<void> {}
    }
    const message = await failure(withModule({ providers: [Templates] }));
    expect(message).toMatch(/Templates\.bare: <orderId>/);
    expect(message).toMatch(/Templates\.params: <params\.id>/);
    expect(message).toMatch(/Templates\.idempotent: <body\.id>/);
    expect(message).toMatch(/Templates\.header: is @Idempotent by a header/);
  });

  it('an idempotent handler answers in a way that cannot be replayed', async () => {
    @Controller()
    class Replies {
      @Post('res')
      @Idempotent()
      res(@Res() _res: unknown): void {}

      @Post('next')
      @Idempotent()
      next(@Next() _next: unknown): void {}

      @Sse('sse')
      @Idempotent()
      sse(): Observable<never> {
        return of();
      }

      @Post('render')
      @Render('view')
      @Idempotent()
      render(): void {}

      @Post('passthrough')
      @Idempotent()
      passthrough(@Res({ passthrough: true }) _res: unknown, @Body() _body: unknown): void {}
    }
    const message = await failure(withModule({ controllers: [Replies] }));
    for (const name of ['res', 'next', 'sse', 'render']) expect(message).toContain(`Replies.${name}: `);
    expect(message).not.toContain('Replies.passthrough: ');
  });

  it('another interceptor stands before ours', async () => {
    @Injectable()
    class First {}
    const cheat = {
      provide: 'cheat',
      inject: [getLockServiceToken(), First],
      useFactory: () => undefined,
    };
    const module = await Test.createTestingModule(
      withModule({ providers: [First, cheat, Orders] }),
    ).compile();
    open.push(module);
    const app = module.createNestApplication({ logger: false });
    const { applicationConfig } = (
      module as unknown as { container: { applicationConfig: { globalInterceptors: unknown[] } } }
    ).container;
    applicationConfig.globalInterceptors.unshift({ intercept: () => of(1) });
    await expect(app.init()).rejects.toThrow(/its interceptor does not stand first/);
  });

  it('the required store cannot be reached', async () => {
    const imports = [
      RedisLockModule.forRoot({ redis: { host: '127.0.0.1', port: 1 }, requireAtStartup: true }),
    ];
    const error = await start({ imports }).catch((reason: unknown) => reason);
    expect(isRedisLockError(error, 'STORE_UNAVAILABLE')).toBe(true);
  });

  it('one object belongs to two applications at once', async () => {
    const shared = { provide: 'orders', useValue: new Orders() };
    await start(withModule({ providers: [shared] }));
    expect(await failure(withModule({ providers: [shared] }))).toMatch(/belongs to another application/);
  });
});
