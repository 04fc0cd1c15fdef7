import { ConfigurableModuleBuilder } from '@nestjs/common';
import { instanceExports, instanceProviders } from './instance-providers.js';
import type { RedisLockModuleExtras, RedisLockModuleOptions } from './module-options.js';
import { MODULE_OPTIONS } from './tokens.js';

const EXTRAS: RedisLockModuleExtras = { isGlobal: true, name: undefined };

export const { ConfigurableModuleClass, OPTIONS_TYPE, ASYNC_OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<RedisLockModuleOptions>({ optionsInjectionToken: MODULE_OPTIONS })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createRedisLockOptions')
    .setExtras(EXTRAS, (definition, { isGlobal, name }) => ({
      ...definition,
      global: isGlobal,
      providers: [...(definition.providers ?? []), ...instanceProviders(name)],
      exports: instanceExports(name),
    }))
    .build();
