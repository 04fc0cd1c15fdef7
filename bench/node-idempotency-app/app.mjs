import * as common from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Idempotent, NodeIdempotencyModule } from '@node-idempotency/nestjs';
import { StorageAdapterEnum } from '@node-idempotency/shared';
import { ordersController } from '../support/idempotency/orders.mjs';

/** `@node-idempotency/nestjs` on the Nest that it supports, beside the same route without it. */
export async function createNodeIdempotencyApp(/** @type {string} */ url) {
  class AppModule {}
  common.Module({
    imports: [
      NodeIdempotencyModule.forRootAsync({
        storage: { adapter: StorageAdapterEnum.redis, options: { url } },
        enforceIdempotency: true,
      }),
    ],
    controllers: [ordersController(common, { plain: [], idempotent: [Idempotent()] })],
  })(AppModule);
  return NestFactory.create(AppModule, { logger: ['error', 'warn'] });
}
