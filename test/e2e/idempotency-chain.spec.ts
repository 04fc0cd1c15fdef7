import {
  Controller,
  Injectable,
  Post,
  RequestTimeoutException,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { catchError, defer, map, mergeMap, throwError, timeout, type Observable } from 'rxjs';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { IdempotencyService } from '../../lib/nest/idempotency.service.js';
import { LockService } from '../../lib/nest/lock.service.js';
import type { IdempotencyRecordInfo } from '../../lib/idempotency/idempotency.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';
import { Served, type Reply } from './idempotency-http.js';
import { gate, PLATFORMS } from './nest-platforms.js';

const codeOf = ({ text }: Reply) => (JSON.parse(text) as { code?: string }).code;

/** What stands around the handler, and inside the guard. */
@Injectable()
class TimeoutInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      timeout(50),
      catchError(() => throwError(() => new RequestTimeoutException())),
    );
  }
}

@Injectable()
class FailingCommit implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(mergeMap(() => throwError(() => new Error('the commit failed'))));
  }
}

@Injectable()
class MappingInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next
      .handle()
      .pipe(catchError((error: Error) => throwError(() => new Error(`mapped: ${error.message}`))));
  }
}

describe.each(PLATFORMS)('@Idempotent and what stands around the handler on %s', (platform) => {
  let server: RedisServer;
  let served: Served;
  let order = 0;
  let id: string;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());
  beforeEach(() => {
    id = `${platform}-${++order}`;
  });
  afterEach(() => served.close());

  const post = () => served.send('/pay', { body: { id } });
  const record = (): Promise<IdempotencyRecordInfo | null> =>
    served.app.get(IdempotencyService).inspect(`pay:${id}`);

  it.each(['an Observable', 'a Promise'])(
    'I5: a client that leaves a handler that returns %s stops nothing: one run, done, the retry is a replay',
    async (kind) => {
      const open = gate();
      let runs = 0;
      const work = async (): Promise<object> => {
        runs++;
        await open.opened;
        return { run: runs };
      };
      @Controller('pay')
      class PayController {
        @Post()
        @Idempotent({ key: 'pay:<body.id>' })
        pay(): unknown {
          return kind === 'a Promise' ? work() : defer(work).pipe(map((value) => value));
        }
      }
      served = await Served.start(platform, server, [PayController]);
      const left = served.open('/pay', { body: { id } });
      await waitFor(() => runs === 1);
      left.destroy();
      // the server has seen the client go once a whole other request went through behind it
      expect(codeOf(await post())).toBe('IDEMPOTENCY_IN_PROGRESS');
      open.open();
      await waitFor(async () => (await record())?.state === 'done', { what: 'the record to be done' });
      expect(await post()).toMatchObject({
        status: 201,
        text: '{"run":1}',
        headers: { 'idempotent-replayed': 'true' },
      });
      expect(runs).toBe(1);
    },
  );

  it('I21: a time-out around a handler that goes on holds and renews the record; its success leaves a tombstone', async () => {
    const open = gate();
    let runs = 0;
    @Controller('pay')
    class PayController {
      @Post()
      @UseInterceptors(TimeoutInterceptor)
      @Idempotent({ key: 'pay:<body.id>', lease: 300 })
      async pay(): Promise<object> {
        runs++;
        await open.opened;
        return { run: runs };
      }
    }
    served = await Served.start(platform, server, [PayController]);
    expect((await post()).status).toBe(408);
    const startedAt = Date.now();
    while (Date.now() - startedAt < 900) expect((await post()).status).toBe(409);
    expect(runs).toBe(1);
    open.open();
    await waitFor(async () => (await record())?.state === 'done', {
      what: 'the handler’s success to be kept',
    });
    expect(codeOf(await post())).toBe('IDEMPOTENCY_UNREPLAYABLE');
    expect(runs).toBe(1);
  });

  it('I21: when the handler fails after the time-out, onError decides: the key is free', async () => {
    const open = gate();
    let runs = 0;
    @Controller('pay')
    class PayController {
      @Post()
      @UseInterceptors(TimeoutInterceptor)
      @Idempotent({ key: 'pay:<body.id>' })
      async pay(): Promise<object> {
        if (++runs > 1) return { run: runs };
        await open.opened;
        throw new Error('declined');
      }
    }
    served = await Served.start(platform, server, [PayController]);
    expect((await post()).status).toBe(408);
    expect((await post()).status).toBe(409);
    open.open();
    await waitFor(async () => (await record()) === null, { what: 'the key to be free' });
    expect(await post()).toMatchObject({ status: 201, text: '{"run":2}' });
  });

  it('a commit that fails after the handler succeeded holds the record: the next run is attempt 2', async () => {
    @Controller('pay')
    class PayController {
      @Post()
      @UseInterceptors(FailingCommit)
      @Idempotent({ key: 'pay:<body.id>', lease: 400, onError: 'release' })
      pay(): string {
        return 'paid';
      }
    }
    served = await Served.start(platform, server, [PayController]);
    expect((await post()).status).toBe(500);
    expect(await record()).toMatchObject({ state: 'pending', attempt: 1 });
    expect((await post()).status).toBe(409);
    await waitFor(async () => (await record())!.leaseMs === 0, { what: 'the lease to end' });
    expect((await post()).status).toBe(500);
    expect(await record()).toMatchObject({ state: 'pending', attempt: 2 });
  });

  it('an interceptor that only maps the handler’s own error changes nothing: the key is freed', async () => {
    @Controller('pay')
    class PayController {
      @Post()
      @UseInterceptors(MappingInterceptor)
      @Idempotent({ key: 'pay:<body.id>' })
      pay(): never {
        throw new Error('declined');
      }
    }
    served = await Served.start(platform, server, [PayController]);
    expect((await post()).status).toBe(500);
    expect(await record()).toBeNull();
  });

  it('I29: a lock that was taken away under a handler that succeeds: 500 with LOCK_LOST, and the retry does not run', async () => {
    const admin = server.client();
    let runs = 0;
    @Controller('pay')
    class PayController {
      @Post()
      @Idempotent({ key: 'pay:<body.id>' })
      @DistributedLock('lock:order:<body.id>')
      async pay(): Promise<object> {
        runs++;
        await admin.del(`lock:order:${id}`);
        return { run: runs };
      }
    }
    served = await Served.start(platform, server, [PayController]);
    const first = await post();
    expect(first.status).toBe(500);
    expect(codeOf(first)).toBe('LOCK_LOST');
    expect(codeOf(await post())).toBe('IDEMPOTENCY_UNREPLAYABLE');
    expect(runs).toBe(1);
  });

  it('a lock that was taken away under a handler that fails holds the record', async () => {
    const admin = server.client();
    @Controller('pay')
    class PayController {
      @Post()
      @DistributedLock('lock:order:<body.id>')
      @Idempotent({ key: 'pay:<body.id>' })
      async pay(): Promise<never> {
        await admin.del(`lock:order:${id}`);
        throw new Error('declined');
      }
    }
    served = await Served.start(platform, server, [PayController]);
    expect(codeOf(await post())).toBe('LOCK_LOST');
    expect(await record()).toMatchObject({ state: 'pending' });
  });

  it('a busy lock frees the key, whatever onError says; a replay needs no lock', async () => {
    let runs = 0;
    @Controller('pay')
    class PayController {
      @Post()
      @Idempotent({ key: 'pay:<body.id>', onError: 'store' })
      @DistributedLock('lock:order:<body.id>', { waitTimeout: 0 })
      pay(): object {
        return { run: ++runs };
      }
    }
    served = await Served.start(platform, server, [PayController]);
    const locks = served.app.get(LockService);
    const held = await locks.acquire(`lock:order:${id}`);
    expect(codeOf(await post())).toBe('LOCK_BUSY');
    expect(await record()).toBeNull();
    await held.release();
    expect((await post()).text).toBe('{"run":1}');
    const again = await locks.acquire(`lock:order:${id}`);
    expect(await post()).toMatchObject({ text: '{"run":1}', headers: { 'idempotent-replayed': 'true' } });
    await again.release();
  });

  it('a plain method with a key runs once; its value is replayed, its failure frees the key', async () => {
    let runs = 0;
    @Injectable()
    class Charges {
      @Idempotent({ key: 'pay:<args.0.id>' })
      async charge(order: { id: string; fail?: boolean }): Promise<object> {
        runs++;
        if (order.fail) throw new Error('declined');
        return { run: runs, at: new Date(0) };
      }
    }
    served = await Served.start(platform, server, [], { providers: [Charges] });
    const charges = served.app.get(Charges);
    await expect(charges.charge({ id, fail: true })).rejects.toThrow('declined');
    await expect(charges.charge({ id })).resolves.toEqual({ run: 2, at: new Date(0) });
    await expect(charges.charge({ id })).resolves.toEqual({ run: 2, at: '1970-01-01T00:00:00.000Z' });
  });

  it('an error like in-progress from inside the handler is the handler’s own: inFlightReply is not asked', async () => {
    @Controller('pay')
    class PayController {
      constructor(private readonly idempotency: IdempotencyService) {}

      @Post()
      @Idempotent({ key: 'pay:<body.id>', inFlightReply: () => 'in flight' })
      async pay(): Promise<void> {
        await this.idempotency.execute(`pay:${id}`, () => 'never');
      }
    }
    served = await Served.start(platform, server, [PayController]);
    const reply = await post();
    expect(reply.status).toBe(409);
    expect(codeOf(reply)).toBe('IDEMPOTENCY_IN_PROGRESS');
    expect(await record()).toBeNull();
  });
});
