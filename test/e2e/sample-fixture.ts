import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { INestApplication } from '@nestjs/common';
import { createApp } from '../../sample-app/src/create-app.js';
import { Database } from '../../sample-app/src/database/database.js';
import { StockService } from '../../sample-app/src/inventory/stock.service.js';
import { RedisServer } from '../support/redis-server.js';

export interface Reply {
  status: number;
  headers: Headers;
  text: string;
  json: any;
}

/** The sample application over real HTTP, on a Redis and a database file of its own. */
export class Sample {
  private constructor(
    readonly app: INestApplication,
    readonly redis: RedisServer,
    readonly database: Database,
    private readonly folder: string,
  ) {}

  static async start(): Promise<Sample> {
    const folder = mkdtempSync(join(tmpdir(), 'sample-test-'));
    const redis = await RedisServer.start();
    const database = await Database.open({ file: join(folder, 'sample.db') });
    const source = {
      kind: 'redis',
      url: redis.url,
      description: 'test',
      stop: async () => undefined,
    } as const;
    const app = await createApp({ database, redis: source });
    await app.listen(0, '127.0.0.1');
    return new Sample(app, redis, database, folder);
  }

  async stop(): Promise<void> {
    await this.app.close();
    await this.database.close();
    await this.redis.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async request(
    method: 'GET' | 'POST',
    path: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<Reply> {
    const { port } = this.app.getHttpServer().address() as AddressInfo;
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: text ? JSON.parse(text) : undefined,
    };
  }

  post(path: string, body: object, headers?: Record<string, string>): Promise<Reply> {
    return this.request('POST', path, body, headers);
  }

  get(path: string): Promise<Reply> {
    return this.request('GET', path);
  }

  async article(sku: string, units: number): Promise<void> {
    await this.app.get(StockService).restock(sku, PRICE, units, `restock:${sku}`);
  }

  /** An order that waits for its payment. */
  async pendingOrder(id: string): Promise<void> {
    await this.database.run(async (db) => {
      await db
        .insertInto('inventory')
        .values({ sku: 'paid-goods', price: PRICE, stock: 1_000 })
        .onConflict((conflict) => conflict.doNothing())
        .execute();
      await db
        .insertInto('orders')
        .values({
          id,
          sku: 'paid-goods',
          quantity: 1,
          amount: PRICE,
          status: 'pending',
          created_at: '',
          paid_at: null,
        })
        .execute();
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

export const notification = (orderId: string, change: object = {}): object => ({
  id: `notification-${orderId}`,
  orderId,
  transactionId: `transaction-${orderId}`,
  amount: PRICE,
  ...change,
});
