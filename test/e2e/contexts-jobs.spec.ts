import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import { Injectable } from '@nestjs/common';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { Test, type TestingModule } from '@nestjs/testing';
import { QueueEvents, type Job, type Queue } from 'bullmq';
import { from, lastValueFrom, Observable, toArray } from 'rxjs';
import { isRedisLockError } from '../../lib/errors.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { LockParam } from '../../lib/nest/decorators/lock-param.decorator.js';
import { IdempotencyService } from '../../lib/nest/idempotency.service.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';
import { gate } from './nest-platforms.js';

class Work {
  runs = 0;
  hold = gate();
}

interface Payment {
  id: string;
  wait?: boolean;
  fail?: boolean;
}

@Processor('payments', { concurrency: 4 })
class PaymentProcessor extends WorkerHost {
  constructor(private readonly work: Work) {
    super();
  }

  @Idempotent({ key: 'payment:<args.0.data.id>' })
  @DistributedLock('lock:payment:<args.0.data.id>')
  async process(job: Job<Payment>): Promise<object> {
    const run = ++this.work.runs;
    if (job.data.wait) await this.work.hold.opened;
    if (job.data.fail) throw new Error('declined');
    return { run, job: job.id };
  }
}

@Injectable()
class Billing {
  tick = '';

  constructor(
    private readonly work: Work,
    private readonly idempotency: IdempotencyService,
  ) {}

  @Cron('0 0 1 1 *', { name: 'above' })
  @Idempotent({ key: () => 'cron:daily' })
  async daily(): Promise<void> {
    this.work.runs++;
  }

  @Idempotent({ key: 'cron:below' })
  @Cron('0 0 1 1 *', { name: 'below' })
  async below(): Promise<void> {
    this.work.runs++;
  }

  @Idempotent({ key: 'charge:<id>', fingerprint: true })
  async charge(@LockParam('id') id: string, amount: number): Promise<string> {
    return `${id} ${amount} run ${++this.work.runs}`;
  }

  @Idempotent({ key: 'nested:<id>' })
  async nested(@LockParam('id') _id: string, inner: string): Promise<unknown> {
    this.work.runs++;
    return (await this.idempotency.execute(inner, () => ++this.work.runs)).value;
  }

  @Idempotent({ key: 'stream:<args.0>' })
  stream(_id: string, count: number): Observable<number> {
    this.work.runs++;
    return from(Array.from({ length: count }, (_, n) => n));
  }
}

const quiet = { log() {}, error() {}, warn() {} };

describe('jobs and services', () => {
  let server: RedisServer;
  let module: TestingModule;
  let queue: Queue<Payment>;
  let queueEvents: QueueEvents;
  let work: Work;
  let order = 0;
  let id: string;

  beforeAll(async () => {
    server = await RedisServer.start();
    const connection = { host: '127.0.0.1', port: server.port };
    module = await Test.createTestingModule({
      imports: [
        RedisLockModule.forRoot({ redis: server.url }),
        BullModule.forRoot({ connection }),
        BullModule.registerQueue({ name: 'payments' }),
        ScheduleModule.forRoot(),
      ],
      providers: [Work, PaymentProcessor, Billing],
    })
      .setLogger(quiet)
      .compile();
    await module.init();
    work = module.get(Work);
    queue = module.get(getQueueToken('payments'));
    queueEvents = new QueueEvents('payments', { connection });
    await queueEvents.waitUntilReady();
  });
  afterAll(async () => {
    await queueEvents?.close();
    await module?.close();
    await server.stop();
  });
  beforeEach(() => {
    id = `j${++order}`;
    work.runs = 0;
    work.hold = gate();
  });

  const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
    promise.then(
      (value) => ({ value }),
      (error: unknown) => (isRedisLockError(error) ? error.code : error),
    );

  describe('a BullMQ processor', () => {
    const add = (data: Payment, attempts = 1): Promise<Job<Payment>> =>
      queue.add('pay', data, { attempts, backoff: { type: 'fixed', delay: 10 } });
    const result = async (job: Job<Payment>): Promise<unknown> => job.waitUntilFinished(queueEvents);

    it('a second job for one payment gets the first one’s result without running', async () => {
      const first = (await result(await add({ id }))) as { run: number };
      expect(first.run).toBe(1);
      expect(await result(await add({ id }))).toEqual(first);
      expect(work.runs).toBe(1);
    });

    it('I27: a job beside one that still runs fails and is retried; then it resolves without running', async () => {
      const first = await add({ id, wait: true });
      await waitFor(() => work.runs === 1);
      const second = await add({ id, wait: true }, 1_000);
      await waitFor(async () => (await queue.getJob(second.id!))!.attemptsMade > 0, {
        what: 'the second to be refused',
      });
      expect((await queue.getJob(second.id!))!.failedReason).toMatch(/still running/);
      work.hold.open();
      const value = await result(first);
      expect(await result(second)).toEqual(value);
      expect(work.runs).toBe(1);
    });

    it('a job that fails frees its key: its retry runs', async () => {
      const job = await add({ id, fail: true }, 2);
      await expect(result(job)).rejects.toThrow('declined');
      expect(work.runs).toBe(2);
      expect(await module.get(IdempotencyService).inspect(`payment:${id}`)).toBeNull();
    });

    it('I34: the result is there under the same business key', async () => {
      const value = await result(await add({ id }));
      const again = await module.get(IdempotencyService).execute(`payment:${id}`, () => 'never');
      expect(again).toEqual({ value, replayed: true, attempt: 1 });
    });
  });

  it.each(['above', 'below'])('@Cron %s runs once for its key, whichever process ticks', async (name) => {
    const job = module.get(SchedulerRegistry).getCronJob(name);
    await job.fireOnTick();
    await waitFor(() => work.runs === 1);
    await job.fireOnTick();
    const key = name === 'above' ? 'cron:daily' : 'cron:below';
    await waitFor(async () => (await module.get(IdempotencyService).inspect(key))?.state === 'done');
    await job.fireOnTick();
    expect(work.runs).toBe(1);
  });

  it('a plain method compares its arguments when it is asked to', async () => {
    const billing = module.get(Billing);
    expect(await billing.charge(id, 5)).toBe(`${id} 5 run 1`);
    expect(await billing.charge(id, 5)).toBe(`${id} 5 run 1`);
    expect(await codeOf(billing.charge(id, 6))).toBe('IDEMPOTENCY_MISMATCH');
  });

  it('I28: nested under another key is independent; under the same key it is in progress, no deadlock', async () => {
    const billing = module.get(Billing);
    expect(await billing.nested(id, `inner:${id}`)).toBe(2);
    expect(await billing.nested(id, `inner:${id}`)).toBe(2);
    expect(await codeOf(billing.nested(`${id}-same`, `nested:${id}-same`))).toBe('IDEMPOTENCY_IN_PROGRESS');
  });

  it('a declared Observable: one value is replayed; several reach the first subscriber and are not run again', async () => {
    const billing = module.get(Billing);
    const values = (key: string, count: number): Promise<unknown> =>
      lastValueFrom(billing.stream(key, count).pipe(toArray()));
    expect([await values(id, 1), await values(id, 1)]).toEqual([[0], [0]]);
    expect(await values(`${id}-3`, 3)).toEqual([0, 1, 2]);
    expect(await codeOf(values(`${id}-3`, 3))).toBe('IDEMPOTENCY_UNREPLAYABLE');
    expect(work.runs).toBe(2);
  });

  it('I6, I12: IdempotencyService.execute keeps what JSON can express, and never runs the rest again', async () => {
    const service = module.get(IdempotencyService);
    const run = (key: string, value: unknown) =>
      service.execute(key, ({ attempt, signal }) => {
        work.runs++;
        expect([attempt, signal.aborted]).toEqual([1, false]);
        return value;
      });
    for (const [index, value] of [
      undefined,
      null,
      0,
      false,
      '',
      'text',
      [1],
      { a: 1 },
      Buffer.from('b'),
    ].entries()) {
      const key = `${id}:${index}`;
      expect(await run(key, value)).toEqual({ value, replayed: false, attempt: 1 });
      expect(await run(key, 'other')).toEqual({ value, replayed: true, attempt: 1 });
    }
    expect(work.runs).toBe(9);
    const circular: { self?: object } = {};
    circular.self = circular;
    for (const [name, value] of Object.entries({ bigint: 1n, circular })) {
      expect(await run(`${id}:${name}`, value)).toMatchObject({ replayed: false });
      expect(await codeOf(run(`${id}:${name}`, value))).toBe('IDEMPOTENCY_UNREPLAYABLE');
    }
    expect(work.runs).toBe(11);
  });
});
