import { Controller, Get, Inject, Injectable, Logger, Module, type ModuleMetadata } from '@nestjs/common';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { Test, type TestingModule } from '@nestjs/testing';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { concat, defer, finalize, lastValueFrom, NEVER, Observable, of, timer, toArray } from 'rxjs';
import { isRedisLockError } from '../../lib/errors.js';
import type { Lock } from '../../lib/lock/lock.js';
import type { CallContext } from '../../lib/nest/call-context.js';
import { CurrentLock } from '../../lib/nest/decorators/current-lock.decorator.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { LockParam } from '../../lib/nest/decorators/lock-param.decorator.js';
import { LockService } from '../../lib/nest/lock.service.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { inMemoryBackend } from '../../lib/testing/index.js';
import type { Backend } from '../../lib/backend/backend.js';
import { waitFor } from '../support/wait-for.js';
import { Concurrency, gate } from './nest-platforms.js';

Logger.overrideLogger(false);

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

const open: TestingModule[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((module) => module.close()));
});

async function moduleOf(
  metadata: ModuleMetadata,
  backend: Backend = inMemoryBackend(),
): Promise<TestingModule> {
  const module = await Test.createTestingModule({
    ...metadata,
    imports: [RedisLockModule.forRoot({ backend }), ...(metadata.imports ?? [])],
  }).compile();
  open.push(module);
  return module.init();
}

function acquiredIn(module: TestingModule): string[] {
  const keys: string[] = [];
  module.get(LockService).events.subscribe(({ type, key }) => type === 'acquired' && keys.push(key));
  return keys;
}

const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    (value) => ({ value }),
    (error: unknown) => (isRedisLockError(error) ? error.code : error),
  );

@Injectable()
class Orders {
  readonly sections = new Concurrency();

  @DistributedLock('lock:<id>')
  async pay(@LockParam('id') id: string, @CurrentLock() lock?: Lock): Promise<string> {
    return this.sections.run(async () => `${id} ${lock?.keys.join()} ${lock?.held}`);
  }

  @DistributedLock('lock:<args.0>', { waitTimeout: 0 })
  async byPosition(_id: string): Promise<string> {
    return 'ok';
  }

  @DistributedLock((call: CallContext<[string, number]>) => `lock:${call.args[0]}:${call.args[1]}`)
  async byFunction(_id: string, _n: number): Promise<string> {
    return 'ok';
  }

  @DistributedLock('lock:undeclared')
  undeclared(value: string) {
    return value;
  }

  @DistributedLock('lock:throws')
  async fails(): Promise<never> {
    throw new RangeError('mine');
  }

  @DistributedLock('lock:skip', { onBusy: 'skip' })
  async skip(): Promise<string> {
    return 'ran';
  }
}

describe('@DistributedLock on plain methods', () => {
  it('N9: takes one lock per call, with its parameters', async () => {
    const module = await moduleOf({ providers: [Orders] });
    const acquired = acquiredIn(module);
    const orders = module.get(Orders);
    expect(await orders.pay('7')).toBe('7 lock:7 true');
    expect(await orders.byPosition('8')).toBe('ok');
    expect(await orders.byFunction('9', 1)).toBe('ok');
    expect(await orders.undeclared('value')).toBe('value');
    expect(acquired).toEqual(['lock:7', 'lock:8', 'lock:9:1', 'lock:undeclared']);
    expect(module.get(LockService).held()).toHaveLength(0);
  });

  it('lets one call at a time run, also of two applications', async () => {
    const backend = inMemoryBackend();
    const [first, second] = await Promise.all([0, 1].map(() => moduleOf({ providers: [Orders] }, backend)));
    const sections = new Concurrency();
    const work = jest.spyOn(sections, 'run');
    const calls = [first, second].flatMap((module) => {
      const orders = module!.get(Orders);
      Object.defineProperty(orders, 'sections', { value: sections });
      return [orders.pay('1'), orders.pay('1'), orders.pay('1')];
    });
    await Promise.all(calls);
    expect(work).toHaveBeenCalledTimes(6);
    expect(sections.most).toBe(1);
  });

  it('passes its result and its error through', async () => {
    const module = await moduleOf({ providers: [Orders] });
    await expect(module.get(Orders).fails()).rejects.toThrow(new RangeError('mine'));
    expect(module.get(LockService).held()).toHaveLength(0);
  });

  it('N8: refuses an object where a value is expected', async () => {
    const orders = (await moduleOf({ providers: [Orders] })).get(Orders);
    expect(await codeOf(orders.pay({ id: 1 } as never))).toBe('LOCK_KEY');
    expect(await codeOf(orders.pay(undefined as never))).toBe('LOCK_KEY');
    expect(orders.sections.total).toBe(0);
  });

  it('is busy with the error of the table, or skipped', async () => {
    const module = await moduleOf({ providers: [Orders] });
    const held = await module.get(LockService).acquire(['lock:7', 'lock:skip']);
    expect(await codeOf(module.get(Orders).byPosition('7'))).toBe('LOCK_BUSY');
    expect(await module.get(Orders).skip()).toBeUndefined();
    await held.release();
    expect(await module.get(Orders).skip()).toBe('ran');
  });

  it('N17: keeps nothing of 10 000 different keys', async () => {
    const module = await moduleOf({ providers: [Orders] });
    const orders = module.get(Orders);
    const some = async (count: number, from: number): Promise<void> => {
      for (let n = 0; n < count; n += 100) {
        await Promise.all(Array.from({ length: 100 }, (_, i) => orders.byPosition(`k${from + n + i}`)));
      }
    };
    expect(module.get(LockService).held()).toHaveLength(0);
    await some(1_000, 0);
    gc();
    const before = process.memoryUsage().heapUsed;
    await some(10_000, 10_000);
    gc();
    expect(module.get(LockService).held()).toHaveLength(0);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(15_000_000);
  });

  describe('an Observable', () => {
    @Injectable()
    class Streams {
      subscribed = 0;
      tornDown = 0;

      @DistributedLock('lock:stream', { waitTimeout: 0, reentrant: false })
      declared(): Observable<number> {
        return defer(() => {
          this.subscribed += 1;
          return of(1, 2, 3);
        });
      }

      @DistributedLock('lock:stream', { waitTimeout: 0 })
      endless(): Observable<number> {
        return concat(of(1), NEVER).pipe(finalize(() => (this.tornDown += 1)));
      }

      @DistributedLock('lock:wait')
      waiting(): Observable<number> {
        return of(1);
      }

      @DistributedLock('lock:stream', { waitTimeout: 0 })
      undeclared() {
        return timer(5) as unknown;
      }
    }

    it('that is declared is cold: the lock is taken at each subscription and held until its end', async () => {
      const module = await moduleOf({ providers: [Streams] });
      const acquired = acquiredIn(module);
      const stream = module.get(Streams).declared();
      await new Promise((done) => setImmediate(done));
      expect(acquired).toEqual([]);
      expect(await lastValueFrom(stream.pipe(toArray()))).toEqual([1, 2, 3]);
      expect(await lastValueFrom(stream)).toBe(3);
      expect(acquired).toEqual(['lock:stream', 'lock:stream']);
      expect(module.get(LockService).held()).toHaveLength(0);
    });

    it('gives the lock back when its subscriber leaves', async () => {
      const module = await moduleOf({ providers: [Streams] });
      const first = gate();
      const subscription = module
        .get(Streams)
        .endless()
        .subscribe(() => first.open());
      await first.opened;
      expect(module.get(LockService).held()).toHaveLength(1);
      expect(await codeOf(lastValueFrom(module.get(Streams).declared()))).toBe('LOCK_BUSY');
      subscription.unsubscribe();
      expect(module.get(Streams).tornDown).toBe(1);
      await waitFor(() => module.get(LockService).held().length === 0);
    });

    it('does not wait for the lock any more when its subscriber has left', async () => {
      const module = await moduleOf({ providers: [Streams] });
      const locks = module.get(LockService);
      const held = await locks.acquire('lock:wait');
      const contended = new Promise<void>((done) => {
        locks.events.subscribe(({ type }) => type === 'contended' && done());
      });
      const subscription = module.get(Streams).waiting().subscribe();
      await contended;
      const acquired = acquiredIn(module);
      subscription.unsubscribe();
      await held.release();
      expect(await locks.withLock('lock:wait', () => 'free', { waitTimeout: 0 })).toBe('free');
      expect(acquired).toEqual(['lock:wait']);
    });

    it('that is not declared never holds the lock while nobody subscribes', async () => {
      const module = await moduleOf({ providers: [Streams] });
      const stream = (await module.get(Streams).undeclared()) as Observable<number>;
      expect(module.get(LockService).held()).toHaveLength(0);
      const acquired = acquiredIn(module);
      expect(await lastValueFrom(stream)).toBe(0);
      expect(acquired).toEqual(['lock:stream']);
    });
  });

  it('N1, N9: @OnEvent handlers and cron jobs are guarded, above and below the other decorator', async () => {
    const sections = new Concurrency();
    const seen: string[] = [];
    @Injectable()
    class Jobs {
      @OnEvent('order.paid')
      @DistributedLock('lock:event')
      async above(@CurrentLock() lock?: Lock): Promise<void> {
        await sections.run(async () => void seen.push(`above ${lock?.held}`));
      }

      @DistributedLock('lock:event')
      @OnEvent('order.paid')
      async below(): Promise<void> {
        await sections.run(async () => void seen.push('below'));
      }

      @Cron('0 0 1 1 *', { name: 'job' })
      @DistributedLock('lock:cron')
      async job(): Promise<void> {
        seen.push('job');
      }

      @DistributedLock('lock:cron:below')
      @Cron('0 0 1 1 *', { name: 'jobBelow' })
      async jobBelow(): Promise<void> {
        seen.push('jobBelow');
      }
    }
    const module = await moduleOf({
      imports: [EventEmitterModule.forRoot(), ScheduleModule.forRoot()],
      providers: [Jobs],
    });
    const acquired = acquiredIn(module);
    await module.get(EventEmitter2).emitAsync('order.paid', { id: '1' });
    await waitFor(() => seen.length === 2);
    expect(seen.sort()).toEqual(['above true', 'below']);
    expect(sections.most).toBe(1);
    await module.get(SchedulerRegistry).getCronJob('job').fireOnTick();
    await waitFor(() => seen.includes('job'));
    await module.get(SchedulerRegistry).getCronJob('jobBelow').fireOnTick();
    await waitFor(() => seen.includes('jobBelow'));
    expect(acquired).toEqual(['lock:event', 'lock:event', 'lock:cron', 'lock:cron:below']);
  });

  it("N18: a short cron job on three instances with onBusy 'skip' and minHold runs once per tick", async () => {
    const ran: number[] = [];
    @Injectable()
    class Nightly {
      @DistributedLock('lock:nightly', { onBusy: 'skip', minHold: 300, ttl: 200 })
      async job(tick: number): Promise<void> {
        ran.push(tick);
      }
    }
    const backend = inMemoryBackend();
    const jobs = [];
    for (let n = 0; n < 3; n += 1) {
      jobs.push((await moduleOf({ providers: [Nightly] }, backend)).get(Nightly));
    }
    for (const job of jobs) await job.job(1);
    await waitFor(async () => (await open[0]!.get(LockService).inspect('lock:nightly')) === null);
    for (const job of jobs.reverse()) await job.job(2);
    expect(ran).toEqual([1, 2]);
  });

  it('is refused when the application is closed', async () => {
    const module = await moduleOf({ providers: [Orders] });
    const orders = module.get(Orders);
    await module.close();
    open.splice(0);
    expect(await codeOf(orders.pay('1'))).toBe('LOCK_CLOSED');
  });

  it('is refused, and never runs unlocked, while its module is not made yet', async () => {
    const ran = jest.fn();
    class Early {
      @DistributedLock('lock:early')
      async load(): Promise<void> {
        ran();
      }
    }
    Injectable()(Early);
    class EarlyModule {}
    Module({ providers: [Early], exports: [Early] })(EarlyModule);
    const module = Test.createTestingModule({
      imports: [
        RedisLockModule.forRootAsync({
          imports: [EarlyModule],
          inject: [Early],
          useFactory: async (early: Early) => {
            await early.load();
            return { backend: inMemoryBackend() };
          },
        }),
      ],
    });
    await expect(module.compile()).rejects.toThrow(
      /^Early\.load: was called before RedisLockModule was ready/,
    );
    expect(ran).not.toHaveBeenCalled();
  });

  it('a provider may lock while the application is still being made', async () => {
    const module = await moduleOf({
      providers: [
        {
          provide: 'migrated',
          inject: [LockService],
          useFactory: (locks: LockService) => locks.withLock('lock:migrate', (lock) => lock.keys.join()),
        },
      ],
    });
    expect(module.get('migrated')).toBe('lock:migrate');
  });

  it('is nothing to a class without Nest: a controller that calls a service keeps one lock each', async () => {
    @Controller()
    class Calls {
      constructor(@Inject(Orders) private readonly orders: Orders) {}

      @Get()
      @DistributedLock('lock:outer')
      async call(): Promise<string> {
        return this.orders.pay('1');
      }
    }
    const module = await moduleOf({ controllers: [Calls], providers: [Orders] });
    const acquired = acquiredIn(module);
    expect(await module.get(Calls).call()).toBe('1 lock:1 true');
    expect(acquired).toEqual(['lock:outer', 'lock:1']);
  });
});
