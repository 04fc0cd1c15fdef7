import {
  Controller,
  Get,
  Injectable,
  Logger,
  Module,
  Post,
  UseGuards,
  type ModuleMetadata,
} from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import {
  InjectIdempotencyService,
  InjectLockService,
  InjectQuotaService,
} from '../../lib/nest/decorators/inject.decorators.js';
import { LockParam } from '../../lib/nest/decorators/lock-param.decorator.js';
import { IdempotencyService } from '../../lib/nest/idempotency.service.js';
import { LockService } from '../../lib/nest/lock.service.js';
import type { RedisLockModuleOptions } from '../../lib/nest/module-options.js';
import { QuotaService } from '../../lib/nest/quota.service.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { getLockServiceToken } from '../../lib/nest/tokens.js';
import { inMemoryBackend } from '../../lib/testing/index.js';

const open: TestingModule[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((module) => module.close()));
  jest.restoreAllMocks();
});

const forRoot = (options: RedisLockModuleOptions & { name?: string; isGlobal?: boolean } = {}) =>
  RedisLockModule.forRoot({ backend: inMemoryBackend(), ...options });

async function start(metadata: ModuleMetadata): Promise<TestingModule> {
  const module = await Test.createTestingModule(metadata).setLogger(silent).compile();
  open.push(module);
  return module.init();
}

const silent = { log() {}, error() {}, warn() {}, debug() {}, verbose() {}, fatal() {} };

const withModule = (metadata: ModuleMetadata): ModuleMetadata => ({
  ...metadata,
  imports: [forRoot(), ...(metadata.imports ?? [])],
});

@Injectable()
class Orders {
  @DistributedLock('lock:<id>')
  async pay(@LockParam('id') id: string): Promise<string> {
    return id;
  }
}

describe('a start-up succeeds', () => {
  it('with a warning, when the store cannot be reached and is not required', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    await start({ imports: [RedisLockModule.forRoot({ redis: { host: '127.0.0.1', port: 1 } })] });
    expect(warn.mock.calls.filter(([text]) => /does not answer/.test(String(text)))).toHaveLength(1);
  });

  it('N14: with useExisting, of the one instance there is', async () => {
    let made = 0;
    @Injectable()
    class Config {
      readonly backend = inMemoryBackend();

      constructor() {
        made += 1;
      }

      createRedisLockOptions(): RedisLockModuleOptions {
        return { backend: this.backend, keyPrefix: 'p:' };
      }
    }
    class ConfigModule {}
    Module({ providers: [Config], exports: [Config] })(ConfigModule);
    const module = await start({
      imports: [RedisLockModule.forRootAsync({ imports: [ConfigModule], useExisting: Config })],
      providers: [Orders],
    });
    expect(await module.get(Orders).pay('1')).toBe('1');
    expect(made).toBe(1);
  });

  it('with useClass and with useFactory', async () => {
    class Config {
      createRedisLockOptions(): RedisLockModuleOptions {
        return { backend: inMemoryBackend() };
      }
    }
    const module = await start({
      imports: [
        RedisLockModule.forRootAsync({ useClass: Config }),
        RedisLockModule.forRootAsync({
          name: 'second',
          inject: [{ token: 'absent', optional: true }],
          useFactory: async () => ({ backend: inMemoryBackend(), lock: { ttl: '5s' } }),
        }),
      ],
    });
    expect(module.get(LockService)).not.toBe(module.get(getLockServiceToken('second')));
  });

  it('N25: when what forRootAsync depends on has a decorated method', async () => {
    @Injectable()
    class Settings {
      @DistributedLock('lock:settings')
      async load(): Promise<string> {
        return 'loaded';
      }

      backend(): RedisLockModuleOptions['backend'] {
        return inMemoryBackend();
      }
    }
    class SettingsModule {}
    Module({ providers: [Settings], exports: [Settings] })(SettingsModule);
    const module = await start({
      imports: [
        RedisLockModule.forRootAsync({
          imports: [SettingsModule],
          inject: [Settings],
          useFactory: (settings: Settings) => ({ backend: settings.backend() as never }),
        }),
      ],
    });
    expect(await module.get(Settings).load()).toBe('loaded');
  });

  it('with named instances, each with services and a store of its own', async () => {
    @Injectable()
    class User {
      constructor(
        @InjectLockService() readonly unnamed: LockService,
        @InjectLockService('a') readonly locks: LockService,
        @InjectQuotaService('a') readonly quotas: QuotaService,
        @InjectIdempotencyService('a') readonly idempotency: IdempotencyService,
        readonly byClass: LockService,
      ) {}

      @DistributedLock('lock:1', { instance: 'a' })
      async underA(): Promise<number[]> {
        return [this.locks.held().length, this.unnamed.held().length];
      }
    }
    const module = await start({ imports: [forRoot(), forRoot({ name: 'a' })], providers: [User] });
    const user = module.get(User);
    expect(user.byClass).toBe(user.unnamed);
    expect(user.locks).not.toBe(user.unnamed);
    expect(user.quotas).toBeInstanceOf(QuotaService);
    expect(user.idempotency).toBeInstanceOf(IdempotencyService);
    expect(await user.underA()).toEqual([1, 0]);
    expect(() => module.get(LockService, { strict: false })).not.toThrow();
  });

  it('with warnings for what is probably not meant', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    class Allowed {
      canActivate(): boolean {
        return true;
      }
    }
    @Controller()
    @UseGuards(Allowed)
    class Shop {
      @Get()
      @Idempotent({ scope: '<user.id>' })
      get(): void {}

      @Post()
      @Idempotent()
      post(): void {}
    }
    await start(withModule({ controllers: [Shop] }));
    const warnings = warn.mock.calls.map(([text]) => String(text));
    expect(warnings.filter((text) => /Shop\.get is @Idempotent on GET/.test(text))).toHaveLength(1);
    expect(warnings.filter((text) => /Shop\.post .*no scope/.test(text))).toHaveLength(1);
  });
});
