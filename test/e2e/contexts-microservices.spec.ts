import {
  Catch,
  Controller,
  Injectable,
  Post,
  UseFilters,
  UseInterceptors,
  type INestApplication,
  type INestApplicationContext,
} from '@nestjs/common';
import type { CallHandler, ExceptionFilter, ExecutionContext, NestInterceptor } from '@nestjs/common';
import {
  ClientTCP,
  Ctx,
  EventPattern,
  MessagePattern,
  Payload,
  Transport,
  type TcpOptions,
} from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import {
  concat,
  firstValueFrom,
  from,
  lastValueFrom,
  map,
  of,
  throwError,
  toArray,
  type Observable,
} from 'rxjs';
import request from 'supertest';
import { isRedisLockError } from '../../lib/errors.js';
import type { Lock } from '../../lib/lock/lock.js';
import { CurrentLock } from '../../lib/nest/decorators/current-lock.decorator.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { IdempotencyService } from '../../lib/nest/idempotency.service.js';
import { LockService } from '../../lib/nest/lock.service.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { freePort } from '../support/free-port.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';
import { Concurrency, gate, PLATFORMS, startApp } from './nest-platforms.js';

/** What an application writes to tell its callers the code of an error: Nest hides errors that it does not know. */
@Catch()
class CodeFilter implements ExceptionFilter {
  catch(error: unknown): Observable<never> {
    const code = isRedisLockError(error) ? error.code : String(error);
    return throwError(() => ({ status: 'error', code }));
  }
}

@Injectable()
class Envelope implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

/** What the handlers below meet; one for each application. */
class Work {
  runs = 0;
  hold = gate();
  readonly sections = new Concurrency();
  readonly events: unknown[] = [];
}

@UseFilters(CodeFilter)
@Controller()
class Payments {
  constructor(private readonly work: Work) {}

  @MessagePattern('pay')
  @Idempotent({ key: 'pay:<data.id>' })
  async pay(@Payload() { wait, fail }: { id: string; wait?: boolean; fail?: boolean }): Promise<object> {
    const run = ++this.work.runs;
    if (wait) await this.work.hold.opened;
    if (fail) throw new Error('declined');
    return { run };
  }

  @Idempotent({ key: 'bare:<id>' })
  @MessagePattern('bare')
  bare(_data: unknown): void {
    this.work.runs++;
  }

  @MessagePattern('compared')
  @Idempotent({ key: 'compared:<id>', fingerprint: ['amount'] })
  compared(): string {
    return `run ${++this.work.runs}`;
  }

  @MessagePattern('enveloped')
  @UseInterceptors(Envelope)
  @Idempotent({ key: 'enveloped:<data.id>' })
  enveloped(): string {
    return `run ${++this.work.runs}`;
  }

  @MessagePattern('several')
  @Idempotent({ key: 'several:<id>' })
  several(): Observable<number> {
    this.work.runs++;
    return from([1, 2, 3]);
  }

  @EventPattern('paid')
  @Idempotent({ key: 'paid:<id>' })
  paid(@Payload() data: unknown): void {
    this.work.events.push(data);
  }

  @MessagePattern('locked')
  @DistributedLock('lock:<data.id>')
  async locked(
    @Payload('id') id: string,
    @Ctx() _context: unknown,
    @CurrentLock() lock: Lock,
  ): Promise<string> {
    return this.work.sections.run(async () => `${id} ${lock.held} ${lock.keys.join()}`);
  }

  @MessagePattern('stream')
  @DistributedLock('lock:stream:<id>', { waitTimeout: 0 })
  stream(): Observable<unknown> {
    return concat(of(1), from(this.work.hold.opened.then(() => 2)));
  }

  @MessagePattern('skip')
  @DistributedLock('lock:skip', { onBusy: 'skip' })
  skip(): string {
    return 'ran';
  }
}

@Controller()
class Http {
  constructor(private readonly work: Work) {}

  @Post('pay')
  @Idempotent({ key: 'pay:<body.id>' })
  pay(): object {
    return { run: ++this.work.runs };
  }
}

type Kind = 'microservice' | `hybrid on ${(typeof PLATFORMS)[number]}${'' | ' that inherits'}`;
const KINDS: Kind[] = [
  'microservice',
  'hybrid on Express',
  'hybrid on Express that inherits',
  'hybrid on Fastify',
  'hybrid on Fastify that inherits',
];

describe.each(KINDS)('messages over TCP, %s', (kind) => {
  let server: RedisServer;
  let app: INestApplicationContext;
  let client: ClientTCP;
  let work: Work;
  let order = 0;
  let id: string;

  beforeAll(async () => {
    server = await RedisServer.start();
    const options: TcpOptions = {
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port: await freePort() },
    };
    const metadata = {
      imports: [RedisLockModule.forRoot({ redis: server.url })],
      controllers: [Payments, Http],
      providers: [Work],
    };
    if (kind === 'microservice') {
      const module = await Test.createTestingModule(metadata).compile();
      const service = module.createNestMicroservice<TcpOptions>({ ...options, logger: false });
      await service.listen();
      app = service;
    } else {
      const started = await startApp(kind.includes('Express') ? 'Express' : 'Fastify', metadata, {
        configure: (hybrid) => {
          hybrid.connectMicroservice(options, {
            inheritAppConfig: kind.endsWith('inherits'),
          });
        },
      });
      await started.startAllMicroservices();
      app = started;
    }
    work = app.get(Work);
    client = new ClientTCP({ host: '127.0.0.1', port: options.options!.port! });
  });
  afterAll(async () => {
    client?.close();
    await app?.close();
    await server.stop();
  });
  beforeEach(() => {
    id = `m${++order}`;
    work.runs = 0;
    work.hold = gate();
  });

  const send = <T = unknown>(pattern: string, data: object): Promise<T> =>
    firstValueFrom(client.send<T>(pattern, data), { defaultValue: undefined as T });
  const refusal = (pattern: string, data: object): Promise<unknown> =>
    send(pattern, data).then(
      (value) => ({ value }),
      ({ code }: { code: string }) => code,
    );

  it('I27: a repeat while the first runs is an error for redelivery; once it is done it resolves without running', async () => {
    const first = send('pay', { id, wait: true });
    await waitFor(() => work.runs === 1);
    expect(await refusal('pay', { id, wait: true })).toBe('IDEMPOTENCY_IN_PROGRESS');
    work.hold.open();
    expect(await first).toEqual({ run: 1 });
    expect(await send('pay', { id, wait: true })).toEqual({ run: 1 });
    expect(work.runs).toBe(1);
  });

  it('a message that fails frees its key: the redelivery runs', async () => {
    expect(await refusal('pay', { id, fail: true })).toBe('Error: declined');
    expect(await send('pay', { id })).toEqual({ run: 2 });
  });

  it('I34: one business key is one record for messages and IdempotencyService', async () => {
    await send('pay', { id });
    const again = await app.get(IdempotencyService).execute(`pay:${id}`, () => 'never');
    expect(again).toEqual({ value: { run: 1 }, replayed: true, attempt: 1 });
  });

  if (kind !== 'microservice') {
    it('N10, I34: HTTP and messages of one application share the record', async () => {
      const { getHttpServer } = app as INestApplication;
      const http = () => request(getHttpServer.call(app)).post('/pay').send({ id }).expect(201, { run: 1 });
      expect((await http()).headers['idempotent-replayed']).toBeUndefined();
      expect(await send('pay', { id })).toEqual({ run: 1 });
      expect((await http()).headers['idempotent-replayed']).toBe('true');
      expect(work.runs).toBe(1);
    });
  }

  it('I2: a void handler without parameter decorators resolves the same way again', async () => {
    const first = await send('bare', { id });
    expect(await send('bare', { id })).toEqual(first);
    expect(work.runs).toBe(1);
  });

  it('I33: a message without its key is refused and runs nothing', async () => {
    expect(await refusal('pay', {})).toBe('IDEMPOTENCY_KEY');
    expect(await refusal('pay', { id: { a: 1 } })).toBe('IDEMPOTENCY_KEY');
    expect(work.runs).toBe(0);
  });

  it('a fingerprint compares the message', async () => {
    expect(await send('compared', { id, amount: 1, at: 1 })).toBe('run 1');
    expect(await send('compared', { id, amount: 1, at: 2 })).toBe('run 1');
    expect(await refusal('compared', { id, amount: 2 })).toBe('IDEMPOTENCY_MISMATCH');
  });

  it('I20: an envelope stands around the first answer and around the repeat, once', async () => {
    expect(await send('enveloped', { id })).toEqual({ data: 'run 1' });
    expect(await send('enveloped', { id })).toEqual({ data: 'run 1' });
    expect(work.runs).toBe(1);
  });

  it('several values reach the first caller; they cannot be given again and nothing runs again', async () => {
    expect(await lastValueFrom(client.send('several', { id }).pipe(toArray()))).toEqual([1, 2, 3]);
    expect(await refusal('several', { id })).toBe('IDEMPOTENCY_UNREPLAYABLE');
    expect(work.runs).toBe(1);
  });

  it('an event that is delivered twice is handled once', async () => {
    for (let delivery = 0; delivery < 2; delivery++) {
      await firstValueFrom(client.emit('paid', { id }), { defaultValue: undefined });
      await waitFor(async () => (await app.get(IdempotencyService).inspect(`paid:${id}`))?.state === 'done');
    }
    // behind both on the same connection
    await send('bare', { id });
    expect(work.events.filter((event) => (event as { id: string }).id === id)).toHaveLength(1);
  });

  it('N9, N10: a locked handler runs one at a time, with the lock', async () => {
    const answers = await Promise.all(Array.from({ length: 5 }, () => send('locked', { id })));
    expect(new Set(answers)).toEqual(new Set([`${id} true lock:${id}`]));
    expect(work.sections.most).toBe(1);
  });

  it('N4: a lock is held until the stream of answers ends', async () => {
    const seen: unknown[] = [];
    const whole = lastValueFrom(
      client.send('stream', { id }).pipe(map((value: unknown) => seen.push(value))),
    );
    await waitFor(() => seen.length === 1);
    expect(await refusal('stream', { id })).toBe('LOCK_BUSY');
    work.hold.open();
    await whole;
    expect(seen).toEqual([1, 2]);
    await waitFor(() => app.get(LockService).held().length === 0);
  });

  it("a skipped run answers with nothing: 'skip' is no error", async () => {
    const held = await app.get(LockService).acquire('lock:skip');
    expect(await refusal('skip', {})).toEqual({ value: undefined });
    await held.release();
    expect(await send('skip', {})).toBe('ran');
  });
});
