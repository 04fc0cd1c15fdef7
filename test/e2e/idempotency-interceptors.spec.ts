import {
  ArgumentsHost,
  Body,
  Catch,
  ConflictException,
  Controller,
  HttpException,
  Injectable,
  NotFoundException,
  Post,
  Res,
  UseFilters,
  UseInterceptors,
  type CallHandler,
  type ExceptionFilter,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { ClassSerializerInterceptor } from '@nestjs/common';
import { APP_INTERCEPTOR, Reflector } from '@nestjs/core';
import { Exclude } from 'class-transformer';
import { map, type Observable } from 'rxjs';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { RedisServer } from '../support/redis-server.js';
import { comparable, everythingIn, Served } from './idempotency-http.js';
import { PLATFORMS } from './nest-platforms.js';

/** Express and Fastify, as far as the handlers below use them. */
interface Response {
  status(code: number): Response;
  header(name: string, value: string): Response;
}

class Account {
  id = 'a1';
  at = new Date(0);
  @Exclude() password = 'secret-password';
}

let runs = 0;

describe.each(PLATFORMS)('replies through interceptors and filters on %s', (platform) => {
  let server: RedisServer;
  let keys = 0;
  const freshKey = () => `key-${++keys}`;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());

  /** Sends twice: the handler ran once, and the replay is the first reply again. */
  async function expectFaithful(
    served: Served,
    path: string,
    body?: unknown,
  ): Promise<ReturnType<typeof comparable>> {
    const key = freshKey();
    const before = runs;
    const first = await served.send(path, { key, body });
    const replay = await served.send(path, { key, body });
    const again = await served.send(path, { key, body });
    expect(runs).toBe(before + 1);
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expect(replay.headers['idempotent-replayed']).toBe('true');
    expect(comparable(replay)).toEqual(comparable(first));
    expect(comparable(again)).toEqual(comparable(first));
    return comparable(first);
  }

  describe('through the application’s own interceptors and filters', () => {
    @Injectable()
    class Envelope implements NestInterceptor {
      intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
        return next.handle().pipe(map((data: unknown) => ({ data })));
      }
    }

    @Catch(HttpException)
    class RewritingFilter implements ExceptionFilter {
      catch(exception: HttpException, host: ArgumentsHost): void {
        const response = host.switchToHttp().getResponse<Response & { send(body: object): void }>();
        response.status(exception.getStatus() + 1);
        response.send({
          rewritten: exception.message,
          name: exception.name,
          was: exception.getResponse(),
          conflict: exception instanceof ConflictException,
        });
      }
    }

    it.each(['APP_INTERCEPTOR', 'useGlobalInterceptors', 'controller', 'method'])(
      'I4: with ClassSerializerInterceptor by %s the password is neither in the replay nor in Redis',
      async (way) => {
        const none = (): void => undefined;
        const onController = way === 'controller' ? UseInterceptors(ClassSerializerInterceptor) : none;
        const onMethod = way === 'method' ? UseInterceptors(ClassSerializerInterceptor) : none;

        @onController
        @Controller('accounts')
        class AccountsController {
          @Post()
          @onMethod
          @Idempotent()
          create(): Account {
            runs++;
            return new Account();
          }
        }
        const served = await Served.start(platform, server, [AccountsController], {
          providers:
            way === 'APP_INTERCEPTOR'
              ? [{ provide: APP_INTERCEPTOR, useClass: ClassSerializerInterceptor }]
              : [],
          configure: (app) => {
            if (way !== 'useGlobalInterceptors') return;
            app.useGlobalInterceptors(new ClassSerializerInterceptor(app.get(Reflector)));
          },
        });
        try {
          const first = await expectFaithful(served, '/accounts');
          expect(first).toMatchObject({ bytes: '{"id":"a1","at":"1970-01-01T00:00:00.000Z"}' });
          expect((await everythingIn(server)).includes('secret-password')).toBe(false);
        } finally {
          await served.close();
        }
      },
    );

    it('I20: an envelope is stored and replayed once; a rewriting filter answers a replayed error the same way', async () => {
      @UseInterceptors(Envelope)
      @UseFilters(RewritingFilter)
      @Controller('orders')
      class OrdersController {
        @Post()
        @Idempotent()
        create(): object {
          runs++;
          return { id: 'o1' };
        }

        @Post('missing')
        @Idempotent({ onError: 'store' })
        missing(): never {
          runs++;
          throw new NotFoundException({ order: 'o1', hint: 'none' });
        }

        @Post('conflict')
        @Idempotent({ onError: 'store' })
        conflict(@Res({ passthrough: true }) response: Response): never {
          runs++;
          response.header('Content-Language', 'de');
          throw new ConflictException('taken');
        }
      }
      const served = await Served.start(platform, server, [OrdersController]);
      try {
        expect(await expectFaithful(served, '/orders')).toMatchObject({ bytes: '{"data":{"id":"o1"}}' });
        expect(await expectFaithful(served, '/orders/missing')).toMatchObject({ status: 405 });
        const conflict = await expectFaithful(served, '/orders/conflict');
        expect(conflict).toMatchObject({ status: 410, headers: { 'content-language': 'de' } });
        expect(conflict).toMatchObject({ bytes: expect.stringContaining('"conflict":true') });
      } finally {
        await served.close();
      }
    });

    it('I20: a stored HttpException of every shape is answered the same way by Nest’s own filter', async () => {
      const errors: Record<string, () => Error> = {
        message: () => new NotFoundException('no such order'),
        object: () => new HttpException({ a: 1, b: [2] }, 418),
        string: () => new HttpException('teapot', 418),
        bare: () => new ConflictException(),
      };
      @Controller('errors')
      class ErrorsController {
        @Post()
        @Idempotent({ onError: 'store' })
        fail(@Body() { kind }: { kind: string }): never {
          runs++;
          throw errors[kind]!();
        }
      }
      const served = await Served.start(platform, server, [ErrorsController]);
      try {
        for (const kind of Object.keys(errors)) await expectFaithful(served, '/errors', { kind });
      } finally {
        await served.close();
      }
    });
  });
});
