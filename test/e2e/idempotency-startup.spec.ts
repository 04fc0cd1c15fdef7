import {
  Controller,
  Get,
  Head,
  Injectable,
  Logger,
  Options,
  Post,
  type CanActivate,
  type Type,
} from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { Mutation, Query, Resolver } from '@nestjs/graphql';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { inMemoryBackend } from '../../lib/testing/index.js';
import { PLATFORMS, startApp, type AppOptions } from './nest-platforms.js';

@Injectable()
class Allowed implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}

@Controller('shop')
class Shop {
  @Get()
  @Idempotent({ scope: '<user.id>' })
  get(): void {}

  @Head('head')
  @Idempotent({ scope: '<user.id>' })
  head(): void {}

  @Options('options')
  @Idempotent({ scope: '<user.id>' })
  options(): void {}

  @Post()
  @Idempotent()
  open(): void {}

  @Post('scoped')
  @Idempotent({ scope: '<user.id>' })
  scoped(): void {}

  @Post('callback')
  @Idempotent({ key: 'callback:<body.id>' })
  callback(): void {}
}

@Resolver()
class ShopResolver {
  @Query(() => String)
  @Idempotent()
  read(): string {
    return '';
  }

  @Mutation(() => String)
  @Idempotent()
  pay(): string {
    return '';
  }
}

describe.each(PLATFORMS)('start-up warnings on %s', (platform) => {
  afterEach(() => jest.restoreAllMocks());

  async function warnings(guards: 'none' | 'APP_GUARD' | 'useGlobalGuards'): Promise<string[]> {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const providers: Array<Type | { provide: string; useClass: Type }> = [ShopResolver];
    if (guards === 'APP_GUARD') providers.push({ provide: APP_GUARD, useClass: Allowed });
    const options: AppOptions = {
      configure: (app) => void (guards === 'useGlobalGuards' && app.useGlobalGuards(new Allowed())),
    };
    const imports = [RedisLockModule.forRoot({ backend: inMemoryBackend() })];
    const app = await startApp(platform, { imports, controllers: [Shop], providers }, options);
    await app.close();
    return warn.mock.calls.map(([text]) => String(text)).filter((text) => text.startsWith('Shop'));
  }
  const about = (texts: string[], what: RegExp): string[] =>
    texts.filter((text) => what.test(text)).map((text) => text.split(' ')[0]!);

  it('tell of what changes nothing by definition, once each', async () => {
    const texts = await warnings('none');
    expect(about(texts, /passes through/)).toEqual([
      'Shop.get',
      'Shop.head',
      'Shop.options',
      'ShopResolver.read',
    ]);
    expect(about(texts, /has no scope/)).toEqual([]);
  });

  it.each(['APP_GUARD', 'useGlobalGuards'] as const)(
    'tell of header keys without a scope behind a guard of the whole application, by %s',
    async (how) => {
      const texts = await warnings(how);
      expect(about(texts, /has no scope/).sort()).toEqual([
        'Shop.open',
        'ShopResolver.pay',
        'ShopResolver.read',
      ]);
    },
  );
});
