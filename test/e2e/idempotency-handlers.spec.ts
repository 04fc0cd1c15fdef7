import {
  BadRequestException,
  Body,
  Controller,
  Get,
  HttpCode,
  HttpException,
  Next,
  NotFoundException,
  Param,
  ParseIntPipe,
  Post,
  Render,
  Res,
  Sse,
  type Type,
} from '@nestjs/common';
import { EMPTY, of, type Observable } from 'rxjs';
import type { CallContext } from '../../lib/nest/call-context.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { IdempotencyService } from '../../lib/nest/idempotency.service.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';
import { Served, type Reply } from './idempotency-http.js';
import { gate, PLATFORMS } from './nest-platforms.js';

const json = ({ text }: Reply) => JSON.parse(text) as Record<string, unknown>;
const replayed = ({ headers }: Reply) => headers['idempotent-replayed'] === 'true';

describe.each(PLATFORMS)('@Idempotent handlers on %s', (platform) => {
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

  it('a handler whose Observable ends empty answers as without us, and that is not stored as a success', async () => {
    let runs = 0;
    @Controller('empty')
    class EmptyController {
      @Post()
      @Idempotent()
      pay(): Observable<never> {
        runs++;
        return EMPTY;
      }
    }
    const http = await serve(EmptyController);
    const key = freshKey();
    expect((await http.send('/empty', { key })).status).toBe(500);
    // the handler had done its work when the error came: held, not run again beside it
    const repeat = await http.send('/empty', { key });
    expect([repeat.status, replayed(repeat), runs]).toEqual([409, false, 1]);
  });

  describe('while the first request runs', () => {
    it('I1: 200 parallel requests: one runs, the others get 409 with Retry-After', async () => {
      const open = gate();
      let runs = 0;
      @Controller('pay')
      class PayController {
        @Post()
        @Idempotent()
        async pay(): Promise<object> {
          runs++;
          await open.opened;
          return { paid: true };
        }
      }
      const http = await serve(PayController);
      const key = freshKey();
      let answered = 0;
      const all = Array.from({ length: 200 }, () => http.send('/pay', { key }).finally(() => answered++));
      await waitFor(() => answered === 199, { timeoutMs: 20_000, what: '199 refusals' });
      open.open();
      const replies = await Promise.all(all);
      expect(runs).toBe(1);
      const refused = replies.filter(({ status }) => status !== 201);
      expect(refused).toHaveLength(199);
      for (const reply of refused) {
        expect(reply).toMatchObject({ status: 409, headers: { 'retry-after': '1' } });
        expect(json(reply)).toMatchObject({ statusCode: 409, code: 'IDEMPOTENCY_IN_PROGRESS' });
      }
      expect(replayed(await http.send('/pay', { key }))).toBe(true);
    });

    it("I1: with 'wait' all 200 get the one reply", async () => {
      const open = gate();
      let runs = 0;
      @Controller('pay')
      class PayController {
        @Post()
        @Idempotent({ onConcurrent: 'wait', waitTimeout: '20s' })
        async pay(): Promise<object> {
          runs++;
          await open.opened;
          return { run: runs };
        }
      }
      const http = await serve(PayController);
      const key = freshKey();
      const all = Array.from({ length: 200 }, () => http.send('/pay', { key }));
      await waitFor(() => runs === 1);
      open.open();
      const replies = await Promise.all(all);
      expect(replies.filter((reply) => !replayed(reply))).toHaveLength(1);
      expect(new Set(replies.map(({ status, text }) => `${status} ${text}`))).toEqual(
        new Set(['201 {"run":1}']),
      );
    });

    it("'wait' ends with 409 when its time is up", async () => {
      const open = gate();
      @Controller('pay')
      class PayController {
        @Post()
        @Idempotent({ onConcurrent: 'wait', waitTimeout: 150 })
        async pay(): Promise<void> {
          await open.opened;
        }
      }
      const http = await serve(PayController);
      const key = freshKey();
      const [first, second] = [http.send('/pay', { key }), http.send('/pay', { key })];
      const refused = await Promise.race([first, second]);
      expect(refused).toMatchObject({ status: 409, headers: { 'retry-after': '1' } });
      open.open();
      expect((await Promise.all([first, second])).map(({ status }) => status).sort((a, b) => a - b)).toEqual([
        201, 409,
      ]);
    });

    it('inFlightReply gives the 409 a body of its own, or another status by an HttpException', async () => {
      const open = gate();
      const busy = ({ body }: CallContext): unknown => {
        if (body.as === 'exception') throw new HttpException({ code: 'FAIL' }, 425);
        return body.as === 'text' ? 'fail' : { code: 'FAIL', message: 'in progress' };
      };
      let running = 0;
      @Controller('pay')
      class PayController {
        @Post()
        @HttpCode(200)
        @Idempotent({ inFlightReply: busy })
        async pay(): Promise<string> {
          running++;
          await open.opened;
          return 'success';
        }
      }
      const http = await serve(PayController);
      for (const [as, status, text] of [
        ['object', 409, '{"code":"FAIL","message":"in progress"}'],
        ['text', 409, 'fail'],
        ['exception', 425, '{"code":"FAIL"}'],
      ] as const) {
        const key = freshKey();
        const before = running;
        const first = http.send('/pay', { key, body: { as } });
        await waitFor(() => running === before + 1);
        expect(await http.send('/pay', { key, body: { as } })).toMatchObject({ status, text });
        open.open();
        expect(await first).toMatchObject({ status: 200, text: 'success' });
        expect(await http.send('/pay', { key, body: { as } })).toMatchObject({
          status: 200,
          text: 'success',
        });
        if (as !== 'exception') Object.assign(open, gate());
      }
    });
  });

  describe('failures', () => {
    it('I3: an Error, an HttpException and a pipe’s 400 free the key: a retry runs, also with another body', async () => {
      let runs = 0;
      @Controller('orders')
      class OrdersController {
        @Post(':id')
        @Idempotent()
        create(@Param('id', ParseIntPipe) id: number, @Body() { fail }: { fail?: string }): object {
          if (fail === 'error') throw new Error('boom');
          if (fail === 'exception') throw new HttpException('boom', 500);
          if (fail === 'bad') throw new BadRequestException();
          return { id, run: ++runs };
        }
      }
      const http = await serve(OrdersController);
      for (const [fail, status] of [
        ['error', 500],
        ['exception', 500],
        ['bad', 400],
      ] as const) {
        const key = freshKey();
        expect((await http.send('/orders/1', { key, body: { fail } })).status).toBe(status);
        expect((await http.send('/orders/1', { key, body: { other: 1 } })).status).toBe(201);
      }
      const key = freshKey();
      expect((await http.send('/orders/x', { key, body: {} })).status).toBe(400);
      const service = http.app.get(IdempotencyService);
      expect(service).toBeInstanceOf(IdempotencyService);
      expect((await http.send('/orders/x', { key, body: { other: 1 } })).status).toBe(400);
      expect(runs).toBe(3);
    });

    it('I23: a 200 whose body means failure is not stored when isSuccess says so, and the redelivery runs', async () => {
      let runs = 0;
      @Controller('alipay')
      class AlipayController {
        @Post()
        @HttpCode(200)
        @Idempotent({
          key: 'alipay:<body.notify_id>',
          isSuccess: (value, status) => status === 200 && value === 'success',
        })
        notify(): string {
          return ++runs === 1 ? 'fail' : 'success';
        }
      }
      const http = await serve(AlipayController);
      const body = { notify_id: freshKey() };
      const replies = [
        await http.send('/alipay', { body }),
        await http.send('/alipay', { body }),
        await http.send('/alipay', { body }),
      ];
      expect(replies.map(({ status, text }) => [status, text])).toEqual([
        [200, 'fail'],
        [200, 'success'],
        [200, 'success'],
      ]);
      expect(replies.map(replayed)).toEqual([false, false, true]);
    });

    it('a status of 400 and more that the handler set is a failure too', async () => {
      let runs = 0;
      @Controller('orders')
      class OrdersController {
        @Post()
        @Idempotent()
        create(@Res({ passthrough: true }) response: { status(code: number): unknown }): object {
          if (++runs === 1) response.status(409);
          return { run: runs };
        }
      }
      const http = await serve(OrdersController);
      const key = freshKey();
      expect((await http.send('/orders', { key })).status).toBe(409);
      expect(await http.send('/orders', { key })).toMatchObject({ status: 201, text: '{"run":2}' });
    });

    it("'store' keeps a stored error from running again; the default does not store a 404", async () => {
      let runs = 0;
      @Controller('orders')
      class OrdersController {
        @Post()
        @Idempotent({
          onError: (error) =>
            error instanceof HttpException && error.getStatus() < 500 ? 'store' : 'release',
        })
        create(@Body() { status }: { status: number }): never {
          runs++;
          throw status === 404 ? new NotFoundException('gone') : new HttpException('later', status);
        }
      }
      const http = await serve(OrdersController);
      const [kept, freed] = [freshKey(), freshKey()];
      for (let time = 0; time < 2; time++) {
        expect((await http.send('/orders', { key: kept, body: { status: 404 } })).status).toBe(404);
        expect((await http.send('/orders', { key: freed, body: { status: 502 } })).status).toBe(502);
      }
      expect(runs).toBe(3);
    });

    it('I15: with the store down the request is 503 and does not run; with bypass it runs', async () => {
      const handler = jest.fn(() => 'ran');
      @Controller('orders')
      class OrdersController {
        @Post()
        @Idempotent()
        create(): string {
          return handler();
        }

        @Post('bypass')
        @Idempotent({ onStoreDown: 'bypass' })
        bypass(): string {
          return handler();
        }
      }
      const own = await RedisServer.start();
      try {
        served = await Served.start(platform, own, [OrdersController]);
        await own.kill();
        const reply = await served.send('/orders', { key: freshKey() });
        expect(reply).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
        expect(json(reply)).toMatchObject({ code: 'STORE_UNAVAILABLE' });
        expect(handler).not.toHaveBeenCalled();
        expect(await served.send('/orders/bypass', { key: freshKey() })).toMatchObject({
          status: 201,
          text: 'ran',
        });
      } finally {
        await own.stop();
      }
    });
  });

  describe('at start-up', () => {
    const DECLARATIONS: Record<string, MethodDecorator | ParameterDecorator> = {
      '@Sse()': Sse(),
      '@Render()': Render('view'),
    };

    it.each(Object.keys(DECLARATIONS))('I8: %s fails and names the handler', async (name) => {
      @Controller('orders')
      class OrdersController {
        @Post()
        @(DECLARATIONS[name] as MethodDecorator)
        @Idempotent()
        create(): Observable<object> {
          return of({});
        }
      }
      await expect(serve(OrdersController)).rejects.toMatchObject({
        code: 'LOCK_CONFIG',
        message: expect.stringContaining('OrdersController.create'),
      });
    });

    it('I8: @Res() without passthrough and @Next() fail and name the handler', async () => {
      @Controller('orders')
      class ResController {
        @Post()
        @Idempotent()
        create(@Res() _response: unknown): void {}
      }
      @Controller('orders')
      class NextController {
        @Post()
        @Idempotent()
        create(@Next() _next: unknown): void {}
      }
      await expect(serve(ResController)).rejects.toMatchObject({
        code: 'LOCK_CONFIG',
        message: expect.stringContaining('ResController.create'),
      });
      await expect(serve(NextController)).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
    });

    it('GET passes through: it is not de-duplicated', async () => {
      let runs = 0;
      @Controller('orders')
      class OrdersController {
        @Get()
        @Idempotent()
        read(): object {
          return { run: ++runs };
        }
      }
      const http = await serve(OrdersController);
      const key = freshKey();
      await http.send('/orders', { method: 'GET', key });
      expect(await http.send('/orders', { method: 'GET', key })).toMatchObject({
        status: 200,
        text: '{"run":2}',
      });
    });
  });
});
