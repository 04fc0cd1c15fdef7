import { Injectable, Logger, Module, Scope, type ModuleMetadata } from '@nestjs/common';
import { LazyModuleLoader, ModuleRef } from '@nestjs/core';
import { Test, type TestingModule } from '@nestjs/testing';
import { setFlagsFromString } from 'node:v8';
import { isRedisLockError } from '../../lib/errors.js';
import type { Lock } from '../../lib/lock/lock.js';
import type { CallContext } from '../../lib/nest/call-context.js';
import { AllowBare } from '../../lib/nest/decorators/allow-bare.decorator.js';
import { CurrentLock } from '../../lib/nest/decorators/current-lock.decorator.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { LockParam } from '../../lib/nest/decorators/lock-param.decorator.js';
import { LockService } from '../../lib/nest/lock.service.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { bindLockService, withoutLocks } from '../../lib/nest/testing-hooks.js';
import { inMemoryBackend } from '../../lib/testing/index.js';
import type { Backend } from '../../lib/backend/backend.js';
import { Concurrency } from './nest-platforms.js';

Logger.overrideLogger(false);

setFlagsFromString('--expose-gc');

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

describe('the object of a locked method', () => {
  describe('N9: whoever made the object', () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest extends Orders {}

    @Injectable({ scope: Scope.TRANSIENT })
    class Transient extends Orders {}

    class Decorated extends Orders {
      @DistributedLock('own:<id>')
      override async pay(@LockParam('id') id: string, @CurrentLock() lock?: Lock): Promise<string> {
        return `own ${id} ${lock?.keys.join()}`;
      }
    }

    class Bare extends Orders {
      @AllowBare()
      override async pay(id: string): Promise<string> {
        return `bare ${id}`;
      }
    }

    it('a request-scoped, a transient, an inherited, an overriding one, and one of moduleRef.create()', async () => {
      const module = await moduleOf({ providers: [PerRequest, Transient, Decorated, Bare] });
      expect(await (await module.resolve(PerRequest)).pay('1')).toBe('1 lock:1 true');
      expect(await (await module.resolve(Transient)).pay('2')).toBe('2 lock:2 true');
      expect(await module.get(Decorated).pay('3')).toBe('own 3 own:3');
      expect(await module.get(Bare).pay('4')).toBe('bare 4');
      expect(await (await module.get(ModuleRef).create(Orders)).pay('5')).toBe('5 lock:5 true');
    });

    it('a factory, a value, a frozen value', async () => {
      const value = new Orders();
      const frozen = Object.freeze(new Orders());
      const module = await moduleOf({
        providers: [
          { provide: 'factory', useFactory: () => new Orders() },
          { provide: 'value', useValue: value },
          { provide: 'frozen', useValue: frozen },
        ],
      });
      for (const token of ['factory', 'value', 'frozen']) {
        expect(await module.get<Orders>(token).pay('1')).toBe('1 lock:1 true');
      }
      expect(Object.keys(value)).toEqual(Object.keys(new Orders()));
      await module.close();
      open.splice(open.indexOf(module), 1);
      const again = await moduleOf({ providers: [{ provide: 'value', useValue: value }] });
      expect(await again.get<Orders>('value').pay('2')).toBe('2 lock:2 true');
    });

    it('a module that is loaded later', async () => {
      const module = await moduleOf({});
      class Lazy {}
      Module({ providers: [Orders] })(Lazy);
      const lazy = await module.get(LazyModuleLoader).load(() => Lazy);
      expect(await lazy.get(Orders).pay('1')).toBe('1 lock:1 true');
    });

    it('N12: each application uses its own store', async () => {
      const [one, two] = [await moduleOf({ providers: [Orders] }), await moduleOf({ providers: [Orders] })];
      const held = await one.get(LockService).acquire('lock:1');
      expect(await codeOf(one.get(Orders).byPosition('1'))).toBe('LOCK_BUSY');
      expect(await two.get(Orders).byPosition('1')).toBe('ok');
      await held.release();
    });
  });

  describe('N27: an object built by hand', () => {
    const calls = (): Array<[string, Promise<unknown>]> => {
      const detached = new Orders();
      const { byPosition } = detached;
      return [
        ['new Orders()', new Orders().byPosition('1')],
        ['a detached method', byPosition('1')],
      ];
    };

    it('is a LockConfigError at the call, which names class and method', async () => {
      for (const [, call] of calls()) {
        await expect(call).rejects.toThrow(/^Orders\.byPosition: /);
        expect(await codeOf(call)).toBe('LOCK_CONFIG');
      }
    });

    it('runs bare in withoutLocks, also what it calls later', async () => {
      const orders = new Orders();
      expect(await withoutLocks(() => orders.pay('1'))).toBe('1 undefined undefined');
      expect(await codeOf(orders.pay('1'))).toBe('LOCK_CONFIG');
    });

    it('locks when it is bound to a lock service, or to a stand-in', async () => {
      const module = await moduleOf({});
      const acquired = acquiredIn(module);
      const orders = bindLockService(new Orders(), module.get(LockService));
      expect(await orders.pay('1')).toBe('1 lock:1 true');
      expect(acquired).toEqual(['lock:1']);
      const fake = { withLock: jest.fn((_key: unknown, task: (lock: Lock) => unknown) => task({} as Lock)) };
      bindLockService(orders, fake as never);
      expect(await orders.byPosition('2')).toBe('ok');
      expect(fake.withLock).toHaveBeenCalledWith('lock:2', expect.any(Function), { waitTimeout: 0 });
    });

    it('never passes for locked when the lock service is an automatic mock', async () => {
      const mocked = await Test.createTestingModule({ providers: [Orders] })
        .useMocker(() => new Proxy({}, { get: (_, name) => (name === 'then' ? undefined : jest.fn()) }))
        .compile();
      expect(await codeOf(mocked.get(Orders).byPosition('1'))).toBe('LOCK_CONFIG');
      const orders = bindLockService(new Orders(), { withLock: jest.fn() as never });
      expect(await codeOf(orders.byPosition('1'))).toBe('LOCK_CONFIG');
    });
  });

  it('overrideProvider of the lock service reaches the decorators', async () => {
    const withLock = jest.fn((_key: unknown, task: (lock: Lock) => unknown) =>
      task({ keys: ['fake'] } as unknown as Lock),
    );
    const module = await Test.createTestingModule({
      imports: [RedisLockModule.forRoot({ backend: inMemoryBackend() })],
      providers: [Orders],
    })
      .overrideProvider(LockService)
      .useValue({ withLock })
      .compile();
    open.push(module);
    await module.init();
    expect(await module.get(Orders).pay('1')).toBe('1 fake undefined');
    expect(withLock).toHaveBeenCalledTimes(1);
  });
});
