import { importNest, importNestCommon, importPackage } from '../measured-package.mjs';
import { ordersController } from './orders.mjs';

/** This module with its defaults: header, fingerprint over the body, lease and renewal. */
export async function createThisModuleApp(/** @type {string} */ url) {
  const [{ NestFactory }, common, { Idempotent, RedisLockModule }] = await Promise.all([
    importNest(),
    importNestCommon(),
    importPackage(),
  ]);
  class AppModule {}
  common.Module({
    imports: [RedisLockModule.forRoot({ redis: url })],
    controllers: [
      ordersController(common, { idempotent: [Idempotent({ required: true })], undecorated: [] }),
    ],
  })(AppModule);
  return NestFactory.create(AppModule, { logger: ['error', 'warn'] });
}
