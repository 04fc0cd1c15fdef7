import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule, type AppResources } from './app.module.js';

/** The application as main.ts and the tests use it. */
export async function createApp(resources: AppResources): Promise<INestApplication> {
  const app = await NestFactory.create(AppModule.forRoot(resources), {
    logger: ['fatal', 'error', 'warn'],
    abortOnError: false,
    // For the signature guards: a signature is over the bytes as they came.
    rawBody: true,
  });
  // Without this, SIGTERM ends the process at once: running sections are cut off and their locks stay until the
  // lease ends.
  app.enableShutdownHooks();
  return app;
}
