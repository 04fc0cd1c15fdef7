import { Body, Controller, Header, HttpCode, Post, Redirect, Res, StreamableFile } from '@nestjs/common';
import { Readable } from 'node:stream';
import { of } from 'rxjs';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { RedisServer } from '../support/redis-server.js';
import { comparable, everythingIn, Served } from './idempotency-http.js';
import { PLATFORMS } from './nest-platforms.js';

/** Express and Fastify, as far as the handlers below use them. */
interface Response {
  status(code: number): Response;
  header(name: string, value: string): Response;
}

class Money {
  constructor(private readonly cents: number) {}
  toJSON(): string {
    return (this.cents / 100).toFixed(2);
  }
}

/** Every kind of value that a handler can return. */
const VALUES: Record<string, () => unknown> = {
  object: () => ({ b: 1, a: { c: [1, null, 'ä'] }, at: new Date(0), '2': 'two', '1': 'one' }),
  'class instance': () => ({ price: new Money(1999), nested: new Map([['a', 1]]) }),
  array: () => [1, 'two', { three: 3 }],
  'empty array': () => [],
  string: () => 'success',
  'empty string': () => '',
  'JSON-like string': () => '{"a":1}',
  'unicode string': () => 'ä€😀',
  number: () => 42.5,
  zero: () => 0,
  NaN: () => NaN,
  true: () => true,
  false: () => false,
  null: () => null,
  undefined: () => undefined,
  Buffer: () => Buffer.from([0, 1, 254, 255]),
  Uint8Array: () => new Uint8Array([1, 2, 3]),
  Date: () => new Date(86_400_000),
  Decimal: () => new Money(5),
  'StreamableFile of a Buffer': () =>
    new StreamableFile(Buffer.from('a;b\n1;2\n'), {
      type: 'text/csv',
      disposition: 'attachment; filename="x.csv"',
    }),
  'empty StreamableFile': () => new StreamableFile(Buffer.alloc(0)),
  Observable: () => of({ from: 'an Observable' }),
};

let runs = 0;

@Controller('values')
class ValuesController {
  @Post()
  @Idempotent()
  value(@Body() { kind }: { kind: string }): unknown {
    runs++;
    return VALUES[kind]!();
  }
}

@Controller('replies')
class RepliesController {
  @Post('no-content')
  @HttpCode(204)
  @Idempotent()
  noContent(): void {
    runs++;
  }

  @Post('success')
  @Idempotent()
  @HttpCode(200)
  success(): string {
    runs++;
    return 'success';
  }

  @Post('xml')
  @Header('Content-Type', 'application/xml')
  @Header('Cache-Control', 'no-store')
  @Idempotent()
  xml(): string {
    runs++;
    return '<xml/>';
  }

  @Post('redirect')
  @Idempotent()
  @Redirect('https://example.com/a', 303)
  redirect(): void {
    runs++;
  }

  @Post('redirect-elsewhere')
  @Redirect('https://example.com/a', 302)
  @Idempotent()
  redirectElsewhere(): object {
    runs++;
    return { url: 'https://example.com/b', statusCode: 307 };
  }

  @Post('passthrough')
  @Idempotent({ replayHeaders: ['X-Order'] })
  passthrough(@Res({ passthrough: true }) response: Response): object {
    runs++;
    response.status(202).header('Location', '/orders/1').header('X-Order', `o${runs}`);
    response.header('Set-Cookie', 'session=secret-cookie').header('X-Trace', 'trace');
    return { run: runs };
  }

  @Post('plain-text')
  @Idempotent()
  plainText(@Res({ passthrough: true }) response: Response): string {
    runs++;
    response.header('Content-Type', 'text/plain');
    return 'plain';
  }
}

describe.each(PLATFORMS)('replies on %s', (platform) => {
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

  describe('of every kind', () => {
    let served: Served;
    let bare: Served;

    beforeAll(async () => {
      served = await Served.start(platform, server, [ValuesController, RepliesController]);
      @Controller('values')
      class BareController {
        @Post()
        value(@Body() { kind }: { kind: string }): unknown {
          return VALUES[kind]!();
        }
      }
      bare = await Served.start(platform, server, [BareController]);
    });
    afterAll(async () => {
      await served.close();
      await bare.close();
    });

    it.each(Object.keys(VALUES))(
      'I2, I7: %s: first and replay have the same bytes, and those of a bare handler',
      async (kind) => {
        const first = await expectFaithful(served, '/values', { kind });
        expect(first).toEqual(comparable(await bare.send('/values', { body: { kind } })));
      },
    );

    it('I22: @HttpCode(200) and the text success stay exactly that', async () => {
      const first = await expectFaithful(served, '/replies/success');
      expect(first).toMatchObject({ status: 200, bytes: 'success' });
    });

    it('@HttpCode(204)', async () => {
      expect(await expectFaithful(served, '/replies/no-content')).toMatchObject({ status: 204, bytes: '' });
    });

    it('@Header', async () => {
      const first = await expectFaithful(served, '/replies/xml');
      expect(first).toMatchObject({
        bytes: '<xml/>',
        headers: { 'content-type': expect.stringContaining('application/xml'), 'cache-control': 'no-store' },
      });
    });

    it('@Redirect, with its own target and with one that the handler returns', async () => {
      expect(await expectFaithful(served, '/replies/redirect')).toMatchObject({
        status: 303,
        headers: { location: 'https://example.com/a' },
      });
      expect(await expectFaithful(served, '/replies/redirect-elsewhere')).toMatchObject({
        status: 307,
        headers: { location: 'https://example.com/b' },
      });
    });

    it('a content type that the handler set, with or without a charset', async () => {
      expect(await expectFaithful(served, '/replies/plain-text')).toMatchObject({ bytes: 'plain' });
    });

    it('@Res({ passthrough: true }): status and safe headers, never a cookie or a trace', async () => {
      const key = freshKey();
      const first = await served.send('/replies/passthrough', { key });
      const replay = await served.send('/replies/passthrough', { key });
      expect(first).toMatchObject({ status: 202, headers: { location: '/orders/1', 'x-trace': 'trace' } });
      expect(first.headers['set-cookie']).toEqual(['session=secret-cookie']);
      expect(replay).toMatchObject({ status: 202, text: first.text, headers: { location: '/orders/1' } });
      expect(replay.headers['x-order']).toBe(first.headers['x-order']);
      expect(replay.headers['set-cookie']).toBeUndefined();
      expect(replay.headers['x-trace']).toBeUndefined();
      expect((await everythingIn(server)).includes('secret-cookie')).toBe(false);
    });
  });

  describe('that cannot be given again', () => {
    const KINDS: Record<string, () => unknown> = {
      'StreamableFile of a stream': () =>
        new StreamableFile(Readable.from([Buffer.from('from '), Buffer.from('a stream')])),
      'StreamableFile of a stream with the length of its bytes': () =>
        new StreamableFile(Readable.from([Buffer.from('from a stream')]), { length: 13 }),
      'a raw stream': () => Readable.from([Buffer.from('from '), Buffer.from('a stream')]),
      'a body over maxBodyBytes': () => 'x'.repeat(100),
      'a file over maxBodyBytes': () => new StreamableFile(Buffer.alloc(100, 'x')),
      'a BigInt': () => ({ n: 1n }),
      'a circular reference': () => {
        const value: Record<string, unknown> = { a: 1 };
        value.self = value;
        return value;
      },
    };
    let guarded: Served;
    let bare: Served;

    beforeAll(async () => {
      @Controller('values')
      class GuardedController {
        @Post()
        @Idempotent({ maxBodyBytes: 99 })
        value(@Body() { kind }: { kind: string }): unknown {
          runs++;
          return KINDS[kind]!();
        }
      }
      @Controller('values')
      class BareController {
        @Post()
        value(@Body() { kind }: { kind: string }): unknown {
          return KINDS[kind]!();
        }
      }
      guarded = await Served.start(platform, server, [GuardedController]);
      bare = await Served.start(platform, server, [BareController]);
    });
    afterAll(async () => {
      await guarded.close();
      await bare.close();
    });

    it.each(Object.keys(KINDS))(
      'I6, I7: %s: the first reply is undamaged, repeats are refused, nothing runs again',
      async (kind) => {
        const key = freshKey();
        const before = runs;
        const body = { kind };
        const first = await guarded.send('/values', { key, body });
        expect(comparable(first)).toEqual(comparable(await bare.send('/values', { body })));
        for (let repeat = 0; repeat < 2; repeat++) {
          const again = await guarded.send('/values', { key, body });
          expect(again.status).toBe(409);
          expect(JSON.parse(again.text)).toMatchObject({ code: 'IDEMPOTENCY_UNREPLAYABLE' });
        }
        expect(runs).toBe(before + 1);
      },
    );
  });
});
