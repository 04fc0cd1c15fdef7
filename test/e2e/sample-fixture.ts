import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { INestApplication } from '@nestjs/common';
import { createApp } from '../../sample-app/src/create-app.js';
import { Database, type DatabaseSettings } from '../../sample-app/src/database/database.js';
import { bookTaken, stockGate } from '../../sample-app/src/gates/gate.js';
import { GatesService } from '../../sample-app/src/gates/gates.service.js';
import { StockService } from '../../sample-app/src/inventory/stock.service.js';
import { MerchantsService } from '../../sample-app/src/merchants/merchants.service.js';
import type { PaymentNotice } from '../../sample-app/src/payments/payment.js';
import { signedNotice, type SignedMessage } from '../../sample-app/src/payments/sample-provider.js';
import { PostgresServer } from '../support/postgres-server.js';
import { RedisServer } from '../support/redis-server.js';

export interface Reply {
  status: number;
  headers: Headers;
  text: string;
  json: any;
}

/** What the sample's tests run on: the same specs, twice. */
export const DATABASES = ['the embedded database', 'Postgres'] as const;
export type DatabaseName = (typeof DATABASES)[number];

/** The sample application over real HTTP, on a Redis and a database of its own. */
export class Sample {
  private constructor(
    readonly app: INestApplication,
    readonly redis: RedisServer,
    readonly database: Database,
    readonly settings: DatabaseSettings,
    private readonly cleanUp: () => Promise<void>,
  ) {}

  static async start(where: DatabaseName = DATABASES[0], redis?: RedisServer): Promise<Sample> {
    const folder = mkdtempSync(join(tmpdir(), 'sample-test-'));
    const postgres = where === 'Postgres' ? await PostgresServer.start() : undefined;
    const settings = postgres
      ? { url: await postgres.createDatabase() }
      : { file: join(folder, 'sample.db') };
    const server = redis ?? (await RedisServer.start());
    const database = await Database.open(settings);
    const app = await openApp(server, database);
    return new Sample(app, server, database, settings, async () => {
      await postgres?.stop();
      rmSync(folder, { recursive: true, force: true });
    });
  }

  async stop(): Promise<void> {
    await this.app.close();
    await this.database.close();
    await this.redis.stop();
    await this.cleanUp();
  }

  /** Another instance of the application on the same Redis and database. */
  async another(): Promise<{ app: INestApplication; close(): Promise<void> }> {
    const database = await Database.open(this.settings);
    const app = await openApp(this.redis, database);
    return {
      app,
      close: async () => {
        await app.close();
        await database.close();
      },
    };
  }

  request(
    method: 'GET' | 'POST',
    path: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<Reply> {
    return this.send(method, path, body && JSON.stringify(body), {
      'content-type': 'application/json',
      ...headers,
    });
  }

  async send(
    method: 'GET' | 'POST',
    path: string,
    body: string | undefined,
    headers: Record<string, string>,
  ): Promise<Reply> {
    const { port } = this.app.getHttpServer().address() as AddressInfo;
    const init = { method, headers, ...(body === undefined ? {} : { body }) };
    const response = await fetch(`http://127.0.0.1:${port}${path}`, init);
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json');
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: text && isJson ? JSON.parse(text) : undefined,
    };
  }

  sendSigned({ path, body, headers }: SignedMessage): Promise<Reply> {
    return this.send('POST', path, body, headers);
  }

  /** One delivery of a provider's callback. */
  notify(notice: PaymentNotice & { merchantId?: string }): Promise<Reply> {
    return this.sendSigned(signedNotice(notice));
  }

  post(path: string, body: object, headers?: Record<string, string>): Promise<Reply> {
    return this.request('POST', path, body, headers);
  }

  get(path: string): Promise<Reply> {
    return this.request('GET', path);
  }

  async merchant(id: string, quota: number): Promise<void> {
    await this.app.get(MerchantsService).topUp(id, quota, `top-up:${id}`);
  }

  async article(sku: string, units: number, merchantId = MERCHANT): Promise<void> {
    await this.merchant(MERCHANT, 10_000);
    await this.app.get(StockService).restock({ sku, merchantId, price: PRICE }, units, `restock:${sku}`);
  }

  /** An order that waits for its payment. */
  async pendingOrder(id: string, merchantId = MERCHANT): Promise<void> {
    const sku = `goods-of-${merchantId}`;
    await this.article(sku, 10_000, merchantId);
    const operation = { operationId: `order:${id}`, gate: stockGate(sku), orderId: id, amount: 1 };
    await this.app.get(GatesService).take(operation);
    const now = Date.now();
    await this.database.transaction(async (trx) => {
      await trx
        .insertInto('orders')
        .values({
          id,
          sku,
          merchant_id: merchantId,
          quantity: 1,
          amount: PRICE,
          status: 'pending',
          created_at: new Date(now).toISOString(),
          expires_at: new Date(now + 900_000).toISOString(),
          paid_at: null,
          cancelled_at: null,
        })
        .execute();
      await bookTaken(trx, operation);
    });
  }

  refusals(reference: string): Promise<{ reason: string }[]> {
    return this.database.run((db) =>
      db.selectFrom('refused_writes').select('reason').where('reference', '=', reference).execute(),
    );
  }

  async handlerRuns(orderId: string): Promise<number> {
    const runs = await this.database.run((db) =>
      db.selectFrom('callback_runs').select('id').where('order_id', '=', orderId).execute(),
    );
    return runs.length;
  }
}

export const PRICE = 1_990;
export const MERCHANT = 'merchant-1';

export const notice = (orderId: string, change: Partial<PaymentNotice> = {}): PaymentNotice => ({
  provider: 'wechat',
  notificationId: `notification-${orderId}`,
  orderId,
  transactionId: `transaction-${orderId}`,
  amount: PRICE,
  ...change,
});

async function openApp(redis: RedisServer, database: Database): Promise<INestApplication> {
  const source = { kind: 'redis', url: redis.url, description: 'test', stop: async () => undefined } as const;
  const app = await createApp({ database, redis: source });
  await app.listen(0, '127.0.0.1');
  return app;
}
