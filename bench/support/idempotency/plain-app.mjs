import { Redis } from 'ioredis';
import { importNest, importNestCommon } from '../measured-package.mjs';
import { bareInterceptor } from './bare-interceptor.mjs';
import { ordersController } from './orders.mjs';

/** The route without anything around it, and with a bare interceptor, in an application without this module. */
export async function createPlainApp(/** @type {string} */ url) {
  const [{ NestFactory }, common] = await Promise.all([importNest(), importNestCommon()]);
  const { Module, UseInterceptors } = common;
  const redis = new Redis(url);
  class AppModule {}
  Module({
    controllers: [ordersController(common, { plain: [], bare: [UseInterceptors(bareInterceptor(redis))] })],
  })(AppModule);
  return NestFactory.create(AppModule, { logger: ['error', 'warn'] });
}
