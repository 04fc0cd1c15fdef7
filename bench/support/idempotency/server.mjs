import { createNodeIdempotencyApp } from '../../node-idempotency-app/app.mjs';
import { carryOutOrders } from '../orders.mjs';
import { orderRuns } from './orders.mjs';
import { createPlainApp } from './plain-app.mjs';
import { createThisModuleApp } from './this-module-app.mjs';

/** A process of its own for one application. */

/** @typedef {{ listen(port: number, host: string): Promise<unknown>, getHttpServer(): import('node:http').Server }} App */

/** @type {Record<string, (url: string) => Promise<App>>} */
const apps = {
  plain: createPlainApp,
  thisModule: createThisModuleApp,
  nodeIdempotency: createNodeIdempotencyApp,
};

const [name = '', url = ''] = process.argv.slice(2);
const create = apps[name];
if (!create) throw new Error(`There is no application ${JSON.stringify(name)}.`);
const app = await create(url);
await app.listen(0, '127.0.0.1');
const address = /** @type {import('node:net').AddressInfo} */ (app.getHttpServer().address());

carryOutOrders({
  ready: () => undefined,
  port: () => address.port,
  usage: () => {
    const { user, system } = process.cpuUsage();
    return { cpuMicros: user + system, runs: orderRuns() };
  },
});
