import {
  Body,
  Catch,
  ClassSerializerInterceptor,
  Controller,
  Header,
  HttpCode,
  HttpException,
  Injectable,
  NotFoundException,
  Post,
  Redirect,
  Res,
  StreamableFile,
  UseInterceptors,
  VersioningType,
  type ArgumentsHost,
  type CallHandler,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
  type Provider,
  type Type,
  type VersioningOptions,
} from '@nestjs/common';
import fastifyCompress from '@fastify/compress';
import { APP_INTERCEPTOR, Reflector } from '@nestjs/core';
import { Exclude } from 'class-transformer';
import compression from 'compression';
import { Readable } from 'node:stream';
import { map, type Observable } from 'rxjs';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { RedisServer } from '../support/redis-server.js';
import { comparable, Served, type Sent } from './idempotency-http.js';
import { PLATFORMS, type Platform } from './nest-platforms.js';

class Decimal {
  constructor(private readonly text: string) {}
  toJSON(): string {
    return this.text;
  }
}

class Account {
  id = 'a1';
  at = new Date(0);
  price = new Decimal('19.99');
  @Exclude() password = 'secret-password';
}

/** Bytes that are worth compressing. */
const LONG = 'all work and no play makes jack a dull boy. '.repeat(200);

async function* parts(): AsyncGenerator<string> {
  yield 'one';
  yield 'two';
}

const circular = (): object => {
  const value: Record<string, unknown> = { a: 1 };
  value.self = value;
  return value;
};

/** Every kind of value of a handler that is replayed. */
const VALUES: Record<string, () => unknown> = {
  object: () => ({ b: 1, a: { c: [1, null, 'ä'] }, at: new Date(0) }),
  'long object': () => ({ text: LONG }),
  array: () => [1, 'two', { three: 3 }],
  string: () => 'success',
  'long string': () => LONG,
  number: () => 42.5,
  zero: () => 0,
  true: () => true,
  false: () => false,
  null: () => null,
  undefined: () => undefined,
  'empty string': () => '',
  Buffer: () => Buffer.from([0, 1, 254, 255]),
  'long Buffer': () => Buffer.from(LONG),
  'StreamableFile of a Buffer': () =>
    new StreamableFile(Buffer.from(LONG), { type: 'text/csv', disposition: 'attachment; filename="x.csv"' }),
  Date: () => new Date(86_400_000),
  Decimal: () => new Decimal('5.00'),
  'class instance': () => new Account(),
  'class instances': () => [new Account(), { nested: new Account() }],
};

/** Every kind that goes to the first caller only. */
const TOMBSTONES: Record<string, () => unknown> = {
  'StreamableFile of a stream': () => new StreamableFile(Readable.from([Buffer.from('from a stream')])),
  'too large': () => 'x'.repeat(20_000),
  BigInt: () => ({ n: 1n }),
  circular,
};
/** A serialiser or an envelope reads these up or wraps them: then they are other values. */
const BARE_TOMBSTONES: Record<string, () => unknown> = {
  stream: () => Readable.from([Buffer.from('from a stream')]),
  'async iterable': () => parts(),
};

/** Express and Fastify, as far as the handlers below use them. */
interface Response {
  status(code: number): Response;
  header(name: string, value: string): Response;
}

const runs = { count: 0 };

/** The same handlers, with and without the decorator. */
function controllerOf(
  guarded: boolean,
  onClass: ClassDecorator = () => undefined,
  onMethod: MethodDecorator = () => undefined,
): Type {
  const idempotent: MethodDecorator = guarded
    ? Idempotent({ maxBodyBytes: 16_384, replayHeaders: ['X-Order'] })
    : () => undefined;
  @onClass
  @Controller('values')
  class ValuesController {
    @Post()
    @onMethod
    @idempotent
    value(@Body() { kind }: { kind: string }): unknown {
      runs.count++;
      return { ...VALUES, ...TOMBSTONES, ...BARE_TOMBSTONES }[kind]!();
    }

    @Post('no-content')
    @HttpCode(204)
    @onMethod
    @idempotent
    noContent(): void {
      runs.count++;
    }

    @Post('header')
    @Header('Content-Type', 'application/xml')
    @Header('Cache-Control', 'no-store')
    @onMethod
    @idempotent
    header(): string {
      runs.count++;
      return '<xml/>';
    }

    @Post('redirect')
    @idempotent
    @Redirect('https://example.com/a', 303)
    redirect(): void {
      runs.count++;
    }

    @Post('passthrough')
    @onMethod
    @idempotent
    passthrough(@Res({ passthrough: true }) response: Response): object {
      runs.count++;
      response.status(202).header('Location', '/orders/1').header('X-Order', 'o1').header('ETag', '"v1"');
      return { accepted: true };
    }

    @Post('missing')
    @HttpCode(200)
    @onMethod
    @(guarded ? Idempotent({ onError: 'store' }) : idempotent)
    missing(): never {
      runs.count++;
      throw new NotFoundException({ order: 'o1' });
    }
  }
  return ValuesController;
}

const ROUTES = ['no-content', 'header', 'redirect', 'passthrough', 'missing'];

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
    response.status(exception.getStatus());
    response.send({ rewritten: exception.message, was: exception.getResponse() });
  }
}

/** One way of setting an application up. */
interface Setup {
  onClass?: ClassDecorator;
  onMethod?: MethodDecorator;
  providers?: Provider[];
  configure?: (app: INestApplication, platform: Platform) => unknown;
  /** Of every request. */
  path?: string;
  headers?: Record<string, string>;
  /** Kinds that are another value there (a serialiser reads a stream up, an envelope wraps a file). */
  except?: readonly string[];
  /** What every reply shows of the set-up: that it is there at all. */
  shows?: (reply: { headers: Record<string, unknown>; text: string }, kind: string) => void;
}

const serializer = UseInterceptors(ClassSerializerInterceptor);
const streams = Object.keys(BARE_TOMBSTONES);
const hides: Pick<Setup, 'except' | 'shows'> = {
  except: [...streams, 'circular'],
  shows: ({ text }, kind) => {
    if (kind.startsWith('class instance')) expect(text).not.toContain('password');
  },
};
const versioned = (options: VersioningOptions): Pick<Setup, 'configure'> => ({
  configure: (app) => app.enableVersioning({ ...options, defaultVersion: '1' }),
});

const SETUPS: Record<string, Setup> = {
  'nothing else': {},
  'ClassSerializerInterceptor by APP_INTERCEPTOR': {
    ...hides,
    providers: [{ provide: APP_INTERCEPTOR, useClass: ClassSerializerInterceptor }],
  },
  'ClassSerializerInterceptor by useGlobalInterceptors': {
    ...hides,
    configure: (app) => app.useGlobalInterceptors(new ClassSerializerInterceptor(app.get(Reflector))),
  },
  'ClassSerializerInterceptor on the controller': { ...hides, onClass: serializer },
  'ClassSerializerInterceptor on the method': { ...hides, onMethod: serializer },
  'an envelope': {
    onClass: UseInterceptors(Envelope),
    except: [...streams, 'StreamableFile of a Buffer', 'StreamableFile of a stream', 'long Buffer'],
    shows: ({ text }, kind) => {
      if (kind === 'string') expect(text).toBe('{"data":"success"}');
    },
  },
  'an exception filter': {
    configure: (app) => app.useGlobalFilters(new RewritingFilter()),
    shows: ({ text }, kind) => {
      if (kind === 'missing') expect(text).toContain('"rewritten"');
    },
  },
  compression: {
    headers: { 'accept-encoding': 'gzip' },
    configure: (app, platform) =>
      platform === 'Express'
        ? app.use(compression())
        : (app.getHttpAdapter().getInstance() as { register(plugin: unknown): unknown }).register(
            fastifyCompress,
          ),
    shows: ({ headers }, kind) => {
      if (kind === 'long object' || kind === 'long string') expect(headers['content-encoding']).toBe('gzip');
    },
  },
  CORS: {
    headers: { origin: 'https://shop.example' },
    configure: (app) =>
      app.enableCors({ origin: true, exposedHeaders: ['Idempotent-Replayed', 'Retry-After'] }),
    shows: ({ headers }) => {
      expect(headers['access-control-allow-origin']).toBe('https://shop.example');
      expect(headers['access-control-expose-headers']).toMatch(/Idempotent-Replayed, ?Retry-After/);
    },
  },
  'versions in the URI': { ...versioned({ type: VersioningType.URI }), path: '/v1' },
  'versions by header': {
    ...versioned({ type: VersioningType.HEADER, header: 'x-version' }),
    headers: { 'x-version': '1' },
  },
  'versions by media type': {
    ...versioned({ type: VersioningType.MEDIA_TYPE, key: 'v=' }),
    headers: { accept: 'application/json;v=1' },
  },
  'a global prefix': { configure: (app) => app.setGlobalPrefix('api'), path: '/api' },
};

describe.each(PLATFORMS)('replies on %s through', (platform) => {
  let server: RedisServer;
  let keys = 0;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());

  describe.each(Object.entries(SETUPS))('%s', (_name, setup) => {
    const { onClass, onMethod, providers = [], configure, path: prefix = '', headers = {}, shows } = setup;
    let guarded: Served;
    let bare: Served;

    beforeAll(async () => {
      const start = (decorated: boolean) =>
        Served.start(platform, server, [controllerOf(decorated, onClass, onMethod)], {
          providers,
          configure: (app) => void configure?.(app, platform),
        });
      [guarded, bare] = await Promise.all([start(true), start(false)]);
    });
    afterAll(() => Promise.all([guarded?.close(), bare?.close()]));

    const kindsOf = (table: object): string[] =>
      Object.keys(table).filter((kind) => !setup.except?.includes(kind));
    const sent = (body: object | undefined, key?: string): Sent => ({
      headers,
      ...(body ? { body } : {}),
      ...(key === undefined ? {} : { key }),
    });

    async function expectFaithful(route: string, kind: string, body?: object): Promise<void> {
      const path = `${prefix}/values${route}`;
      const key = `key-${++keys}`;
      const undecorated = await bare.send(path, sent(body));
      const before = runs.count;
      const first = await guarded.send(path, sent(body, key));
      const replay = await guarded.send(path, sent(body, key));
      expect(runs.count).toBe(before + 1);
      expect(comparable(first)).toEqual(comparable(undecorated));
      expect(comparable(replay)).toEqual(comparable(first));
      expect([first, replay].map((reply) => reply.headers['idempotent-replayed'])).toEqual([
        undefined,
        'true',
      ]);
      for (const reply of [first, replay]) shows?.(reply, kind);
    }

    it.each(kindsOf(VALUES))(
      '%s: a bare handler, the first reply and the replay are the same bytes',
      (kind) => expectFaithful('', kind, { kind }),
    );

    it.each(ROUTES)('/%s: a bare handler, the first reply and the replay are the same', (route) =>
      expectFaithful(`/${route}`, route),
    );

    it.each(kindsOf({ ...TOMBSTONES, ...BARE_TOMBSTONES }))(
      'I6, I7: %s: the first reply is undamaged, a repeat is refused, nothing runs again',
      async (kind) => {
        const key = `key-${++keys}`;
        const path = `${prefix}/values`;
        const undecorated = await bare.send(path, sent({ kind }));
        const before = runs.count;
        const first = await guarded.send(path, sent({ kind }, key));
        expect(comparable(first)).toEqual(comparable(undecorated));
        const again = await guarded.send(path, sent({ kind }, key));
        expect(again).toMatchObject({
          status: 409,
          text: expect.stringContaining('IDEMPOTENCY_UNREPLAYABLE'),
        });
        expect(runs.count).toBe(before + 1);
      },
    );
  });
});
