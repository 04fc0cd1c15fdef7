import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test, type TestingModuleBuilder } from '@nestjs/testing';

/** The two HTTP platforms: every suite about handlers runs on both. */
export const PLATFORMS = ['Express', 'Fastify'] as const;
export type Platform = (typeof PLATFORMS)[number];

export interface AppOptions {
  /** Before the application is created: overrides of providers. */
  override?: (builder: TestingModuleBuilder) => TestingModuleBuilder;
  /** Before `init()`: `useGlobalInterceptors` and the like. */
  configure?: (app: INestApplication) => void;
}

/** Starts an application that serves, with its log off. Close it. */
export async function startApp(
  platform: Platform,
  metadata: ModuleMetadata,
  { override = (builder) => builder, configure }: AppOptions = {},
): Promise<INestApplication> {
  const module = await override(Test.createTestingModule(metadata)).compile();
  const app =
    platform === 'Express'
      ? module.createNestApplication(new ExpressAdapter(), { logger: false })
      : module.createNestApplication<NestFastifyApplication>(new FastifyAdapter(), { logger: false });
  configure?.(app);
  await app.init();
  if (platform === 'Fastify') await app.getHttpAdapter().getInstance().ready();
  return app;
}

/** A gate that a handler waits at, so that a test decides when it goes on. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** Counts how many sections run at once. */
export class Concurrency {
  now = 0;
  most = 0;
  total = 0;

  async run<T>(task: () => Promise<T>): Promise<T> {
    this.now += 1;
    this.total += 1;
    this.most = Math.max(this.most, this.now);
    try {
      return await task();
    } finally {
      this.now -= 1;
    }
  }
}
