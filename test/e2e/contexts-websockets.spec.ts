import { Catch, Injectable, UseFilters, UseInterceptors, type ArgumentsHost } from '@nestjs/common';
import type { CallHandler, ExceptionFilter, ExecutionContext, NestInterceptor } from '@nestjs/common';
import { WsAdapter } from '@nestjs/platform-ws';
import { ConnectedSocket, MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { once } from 'node:events';
import { concat, from, map, of, type Observable } from 'rxjs';
import { WebSocket } from 'ws';
import { isRedisLockError } from '../../lib/errors.js';
import type { Lock } from '../../lib/lock/lock.js';
import { CurrentLock } from '../../lib/nest/decorators/current-lock.decorator.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { IdempotencyService } from '../../lib/nest/idempotency.service.js';
import { LockService } from '../../lib/nest/lock.service.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';
import { Served } from './idempotency-http.js';
import { Concurrency, gate, PLATFORMS } from './nest-platforms.js';

/** What an application writes to tell its clients the code of an error. */
@Catch()
class CodeFilter implements ExceptionFilter {
  catch(error: unknown, host: ArgumentsHost): void {
    const data = isRedisLockError(error) ? error.code : String(error);
    host
      .switchToWs()
      .getClient<WebSocket>()
      .send(JSON.stringify({ event: 'refused', data }));
  }
}

@Injectable()
class Envelope implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((data: unknown) => ({ event: 'enveloped', data })));
  }
}

class Work {
  runs = 0;
  hold = gate();
  readonly sections = new Concurrency();
}

@UseFilters(CodeFilter)
@WebSocketGateway()
class Gateway {
  constructor(private readonly work: Work) {}

  @SubscribeMessage('pay')
  @Idempotent({ key: 'pay:<data.id>' })
  async pay(@MessageBody() { wait, fail }: { id: string; wait?: boolean; fail?: boolean }): Promise<object> {
    const run = ++this.work.runs;
    if (wait) await this.work.hold.opened;
    if (fail) throw new Error('declined');
    return { event: 'paid', data: run };
  }

  @Idempotent({ key: 'bare:<id>' })
  @SubscribeMessage('bare')
  bare(_client: unknown, { id }: { id: string }): object {
    return { event: 'bare', data: `${id} ${++this.work.runs}` };
  }

  @SubscribeMessage('enveloped')
  @UseInterceptors(Envelope)
  @Idempotent({ key: 'enveloped:<id>' })
  enveloped(): number {
    return ++this.work.runs;
  }

  @SubscribeMessage('several')
  @Idempotent({ key: 'several:<id>' })
  several(): Observable<object> {
    this.work.runs++;
    return from([1, 2]).pipe(map((data) => ({ event: 'one', data })));
  }

  @SubscribeMessage('locked')
  @DistributedLock('lock:<data.id>')
  async locked(
    @MessageBody('id') id: string,
    @ConnectedSocket() _socket: unknown,
    @CurrentLock() lock: Lock,
  ) {
    const data = await this.work.sections.run(async () => `${id} ${lock.held} ${lock.keys.join()}`);
    return { event: 'locked', data };
  }

  @SubscribeMessage('stream')
  @DistributedLock('lock:stream:<id>', { waitTimeout: 0 })
  stream(): Observable<object> {
    return concat(of(1), from(this.work.hold.opened.then(() => 2))).pipe(
      map((data) => ({ event: 'part', data })),
    );
  }
}

describe.each(PLATFORMS)('a WebSocket gateway on %s', (platform) => {
  let server: RedisServer;
  let served: Served;
  let socket: WebSocket;
  let work: Work;
  let received: Array<{ event: string; data: unknown }>;
  let order = 0;
  let id: string;

  beforeAll(async () => {
    server = await RedisServer.start();
    served = await Served.start(platform, server, [], {
      providers: [Gateway, Work],
      configure: (app) => app.useWebSocketAdapter(new WsAdapter(app)),
    });
    work = served.app.get(Work);
    socket = new WebSocket((await served.app.getUrl()).replace(/^http/, 'ws'));
    socket.on('message', (data: Buffer) => received.push(JSON.parse(data.toString()) as never));
    await once(socket, 'open');
  });
  afterAll(async () => {
    socket?.terminate();
    await served?.close();
    await server.stop();
  });
  beforeEach(() => {
    id = `w${++order}`;
    received = [];
    work.runs = 0;
    work.hold = gate();
  });

  const send = (event: string, data: object): void => socket.send(JSON.stringify({ event, data }));
  /** Sends, and waits until this many messages in all have come. */
  async function exchange(event: string, data: object, count = 1): Promise<unknown[]> {
    send(event, data);
    await waitFor(() => received.length >= count, { what: `${count} answers` });
    return received.splice(0).map((message) => [message.event, message.data]);
  }

  it('I27: a repeat while the first runs is refused; once it is done it is answered without running', async () => {
    send('pay', { id, wait: true });
    await waitFor(() => work.runs === 1);
    expect(await exchange('pay', { id })).toEqual([['refused', 'IDEMPOTENCY_IN_PROGRESS']]);
    work.hold.open();
    await waitFor(() => received.length === 1);
    expect(received.splice(0)).toEqual([{ event: 'paid', data: 1 }]);
    expect(await exchange('pay', { id })).toEqual([['paid', 1]]);
    expect(work.runs).toBe(1);
  });

  it('a failure frees the key; a message without its key is refused', async () => {
    expect(await exchange('pay', { id, fail: true })).toEqual([['refused', 'Error: declined']]);
    expect(await exchange('pay', { id })).toEqual([['paid', 2]]);
    expect(await exchange('pay', {})).toEqual([['refused', 'IDEMPOTENCY_KEY']]);
    expect(work.runs).toBe(2);
  });

  it('I34: a handler without parameter decorators; its record is the one of IdempotencyService', async () => {
    const first = await exchange('bare', { id });
    expect(first).toEqual([['bare', `${id} 1`]]);
    expect(await exchange('bare', { id })).toEqual(first);
    expect(await served.app.get(IdempotencyService).inspect(`bare:${id}`)).toMatchObject({ state: 'done' });
  });

  it('I20: an envelope stands around the first answer and around the repeat, once', async () => {
    expect(await exchange('enveloped', { id })).toEqual([['enveloped', 1]]);
    expect(await exchange('enveloped', { id })).toEqual([['enveloped', 1]]);
  });

  it('several values reach the first caller, cannot be given again, and nothing runs again', async () => {
    expect(await exchange('several', { id }, 2)).toEqual([
      ['one', 1],
      ['one', 2],
    ]);
    expect(await exchange('several', { id })).toEqual([['refused', 'IDEMPOTENCY_UNREPLAYABLE']]);
    expect(work.runs).toBe(1);
  });

  it('N9: a locked handler runs one at a time, with the lock', async () => {
    for (let n = 0; n < 4; n++) send('locked', { id });
    expect(await exchange('locked', { id }, 5)).toEqual(
      Array.from({ length: 5 }, () => ['locked', `${id} true lock:${id}`]),
    );
    expect(work.sections.most).toBe(1);
  });

  it('N4: the lock is held until the stream of answers ends', async () => {
    expect(await exchange('stream', { id })).toEqual([['part', 1]]);
    expect(await exchange('stream', { id })).toEqual([['refused', 'LOCK_BUSY']]);
    work.hold.open();
    await waitFor(() => received.length === 1);
    expect(received).toEqual([{ event: 'part', data: 2 }]);
    await waitFor(() => served.app.get(LockService).held().length === 0);
  });

  it('N4: a client that leaves ends the stream and frees its lock', async () => {
    const leaving = new WebSocket((await served.app.getUrl()).replace(/^http/, 'ws'));
    await once(leaving, 'open');
    leaving.send(JSON.stringify({ event: 'stream', data: { id } }));
    await once(leaving, 'message');
    expect(served.app.get(LockService).held()).toHaveLength(1);
    leaving.terminate();
    await waitFor(() => served.app.get(LockService).held().length === 0, { what: 'the lock to be free' });
  });
});
