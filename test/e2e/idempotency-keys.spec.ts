import {
  Controller,
  HttpCode,
  Param,
  Post,
  Query,
  UnauthorizedException,
  UseGuards,
  Version,
  VersioningType,
  type CanActivate,
  type ExecutionContext,
  type Type,
} from '@nestjs/common';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { IdempotencyService } from '../../lib/nest/idempotency.service.js';
import { RedisServer } from '../support/redis-server.js';
import { Served, type Reply } from './idempotency-http.js';
import { PLATFORMS } from './nest-platforms.js';

const json = ({ text }: Reply) => JSON.parse(text) as Record<string, unknown>;
const replayed = ({ headers }: Reply) => headers['idempotent-replayed'] === 'true';

/** Who sends is said by a header. */
class UserGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<{ headers: Record<string, string>; user?: object }>();
    if (!request.headers['x-user']) throw new UnauthorizedException();
    request.user = { id: request.headers['x-user'] };
    return true;
  }
}

describe.each(PLATFORMS)('idempotency keys on %s', (platform) => {
  let server: RedisServer;
  let served: Served | undefined;
  let keys = 0;
  const freshKey = () => `key-${++keys}`;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());
  afterEach(async () => {
    await served?.close();
    served = undefined;
  });

  async function serve(
    controller: Type,
    ...more: Parameters<typeof Served.start> extends [any, any, any, ...infer R] ? R : never
  ): Promise<Served> {
    served = await Served.start(platform, server, [controller], ...more);
    return served;
  }

  describe('keys', () => {
    it('I19: quotes are taken off; too long, twice, not visible: 400; empty: as missing', async () => {
      let runs = 0;
      @Controller('orders')
      class OrdersController {
        @Post()
        @Idempotent()
        create(): object {
          return { run: ++runs };
        }
      }
      const http = await serve(OrdersController);
      const key = freshKey();
      await http.send('/orders', { key });
      expect(replayed(await http.send('/orders', { key: `"${key}"` }))).toBe(true);
      for (const bad of ['x'.repeat(256), [key, key], [key, 'other'], 'a b', '"open']) {
        const reply = await http.send('/orders', { key: bad });
        expect(reply.status).toBe(400);
        expect(json(reply)).toMatchObject({ code: 'IDEMPOTENCY_KEY' });
      }
      expect(runs).toBe(1);
      for (const missing of [undefined, '', '""']) {
        const reply = await http.send('/orders', { key: missing });
        expect(reply.status).toBe(201);
        expect(replayed(reply)).toBe(false);
      }
      expect(runs).toBe(4);
    });

    it('a missing key is 400 where one is required', async () => {
      const handler = jest.fn();
      @Controller('orders')
      class OrdersController {
        @Post()
        @Idempotent({ header: 'X-Request-Id', required: true })
        create(): void {
          handler();
        }
      }
      const http = await serve(OrdersController);
      const reply = await http.send('/orders', { key: freshKey() });
      expect(reply.status).toBe(400);
      expect(json(reply)).toMatchObject({ code: 'IDEMPOTENCY_KEY' });
      expect(handler).not.toHaveBeenCalled();
      expect((await http.send('/orders', { headers: { 'x-request-id': freshKey() } })).status).toBe(201);
    });

    it('I33: a key that cannot be filled is 400 and runs nothing; one that need not be there runs', async () => {
      let runs = 0;
      @Controller('callbacks')
      class CallbacksController {
        @Post()
        @Idempotent({ key: 'wechat:<body.id>' })
        callback(): object {
          return { run: ++runs };
        }

        @Post('optional')
        @Idempotent({ key: 'wechat:<body.id>', required: false })
        optional(): object {
          return { run: ++runs };
        }

        @Post('function')
        @Idempotent({ key: ({ body }) => body.id as string | undefined })
        byFunction(): object {
          return { run: ++runs };
        }
      }
      const http = await serve(CallbacksController);
      for (const id of [undefined, null, '', { a: 1 }, ['a']]) {
        for (const path of ['/callbacks', '/callbacks/function']) {
          const reply = await http.send(path, { body: { id } });
          expect(reply.status).toBe(400);
          expect(json(reply)).toMatchObject({ code: 'IDEMPOTENCY_KEY' });
        }
      }
      expect(runs).toBe(0);
      expect((await http.send('/callbacks/optional', { body: {} })).status).toBe(201);
      expect((await http.send('/callbacks/optional', { body: { id: { a: 1 } } })).status).toBe(400);
      expect(runs).toBe(1);
    });

    it('I9, I10: the order of body fields and of the query is nothing; another body is 422', async () => {
      let runs = 0;
      @Controller('orders')
      class OrdersController {
        @Post()
        @Idempotent()
        create(@Query() query: object): object {
          return { run: ++runs, query };
        }
      }
      const http = await serve(OrdersController);
      const key = freshKey();
      const first = await http.send('/orders?x=1&y=2', { key, body: { a: 1, b: { c: 2, d: 3 } } });
      const again = await http.send('/orders?y=2&x=1', { key, body: { b: { d: 3, c: 2 }, a: 1 } });
      expect(again.text).toBe(first.text);
      const other = await http.send('/orders?x=1&y=2', { key, body: { a: 2, b: { c: 2, d: 3 } } });
      expect(other.status).toBe(422);
      expect(json(other)).toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
      expect(runs).toBe(1);
    });

    it('I11: the same key on another route, other params, another version or method is independent', async () => {
      let runs = 0;
      const run = (): object => ({ run: ++runs });
      @Controller('orders')
      class OrdersController {
        @Post(':id/pay')
        @Version('1')
        @Idempotent()
        pay(@Param('id') _id: string): object {
          return run();
        }

        @Post(':id/pay')
        @Version('2')
        @Idempotent()
        payToo(@Param('id') _id: string): object {
          return run();
        }

        @Post(':id/refund')
        @Version(['1', '2'])
        @Idempotent()
        refund(@Param('id') _id: string): object {
          return run();
        }
      }
      for (const versioning of [
        { type: VersioningType.URI } as const,
        { type: VersioningType.HEADER, header: 'x-version' } as const,
        { type: VersioningType.MEDIA_TYPE, key: 'v=' } as const,
      ]) {
        runs = 0;
        const http = await serve(OrdersController, { configure: (app) => app.enableVersioning(versioning) });
        const key = freshKey();
        const send = (version: string, path: string) =>
          versioning.type === VersioningType.URI
            ? http.send(`/v${version}${path}`, { key })
            : http.send(path, {
                key,
                headers: { 'x-version': version, accept: `application/json;v=${version}` },
              });
        const targets = [
          ['1', '/orders/a/pay'],
          ['1', '/orders/b/pay'],
          ['2', '/orders/a/pay'],
          ['1', '/orders/a/refund'],
          ['2', '/orders/a/refund'],
        ] as const;
        for (const [version, path] of targets) expect(replayed(await send(version, path))).toBe(false);
        expect(runs).toBe(5);
        for (const [version, path] of targets) expect(replayed(await send(version, path))).toBe(true);
        expect(runs).toBe(5);
        await http.close();
        served = undefined;
      }
    });

    it('a namespace makes one key count on several routes', async () => {
      @Controller('orders')
      class OrdersController {
        @Post('a')
        @Idempotent({ namespace: 'orders' })
        a(): string {
          return 'a';
        }

        @Post('b')
        @Idempotent({ namespace: 'orders' })
        b(): string {
          return 'b';
        }
      }
      const http = await serve(OrdersController);
      const key = freshKey();
      await http.send('/orders/a', { key });
      expect(await http.send('/orders/b', { key })).toMatchObject({ text: 'a' });
    });

    it('I25: two users with one key both run, and neither reads the other one’s reply', async () => {
      let runs = 0;
      @UseGuards(UserGuard)
      @Controller('orders')
      class OrdersController {
        @Post()
        @Idempotent({ scope: '<user.id>' })
        create(): object {
          return { run: ++runs };
        }
      }
      const http = await serve(OrdersController);
      const key = freshKey();
      const as = (user: string) => http.send('/orders', { key, headers: { 'x-user': user } });
      const [ann, bob] = [await as('ann'), await as('bob')];
      expect([ann, bob].map(replayed)).toEqual([false, false]);
      expect((await as('ann')).text).toBe(ann.text);
      expect((await as('bob')).text).toBe(bob.text);
      expect(runs).toBe(2);
      // a guard runs earlier and leaves no record
      expect((await http.send('/orders', { key })).status).toBe(401);
    });

    it('I34: one business key is one record over HTTP, through execute, and for inspect and forget', async () => {
      @Controller('callbacks')
      class CallbacksController {
        @Post()
        @HttpCode(202)
        @Idempotent({ key: 'wechat:<body.id>' })
        callback(): object {
          return { from: 'http' };
        }
      }
      const http = await serve(CallbacksController);
      const service = http.app.get(IdempotencyService);
      const [one, two] = [freshKey(), freshKey()];

      await service.execute(`wechat:${one}`, () => ({ from: 'the queue' }));
      const replay = await http.send('/callbacks', { body: { id: one } });
      expect(replay).toMatchObject({ status: 202, text: '{"from":"the queue"}' });
      expect(replayed(replay)).toBe(true);

      await http.send('/callbacks', { body: { id: two } });
      await expect(service.execute(`wechat:${two}`, () => 'never')).resolves.toEqual({
        value: { from: 'http' },
        replayed: true,
        attempt: 1,
      });
      await expect(service.inspect(`wechat:${two}`)).resolves.toMatchObject({
        state: 'done',
        replayable: true,
      });
      await expect(service.forget(`wechat:${two}`)).resolves.toBe(true);
      expect(replayed(await http.send('/callbacks', { body: { id: two } }))).toBe(false);
    });
  });
});
