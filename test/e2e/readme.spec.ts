import type { INestApplication, Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { LockService, QuotaService, getLockServiceToken } from 'nestjs-redis-lock';
import request from 'supertest';
import { ReadmeExamples } from '../support/readme.js';
import { RedisServer } from '../support/redis-server.js';

/* Every example of the README is compiled and run as it stands there. */
describe('the README', () => {
  let server: RedisServer;
  let examples: ReadmeExamples;
  const apps: INestApplication[] = [];

  beforeAll(async () => {
    server = await RedisServer.start();
    process.env.REDIS_URL = server.url;
    examples = ReadmeExamples.extract();
  });
  afterAll(async () => {
    delete process.env.REDIS_URL;
    examples.remove();
    await server.stop();
  });
  afterEach(async () => {
    await Promise.all(apps.splice(0).map((app) => app.close()));
  });

  async function start(module: Type): Promise<INestApplication> {
    const app = (await Test.createTestingModule({ imports: [module] }).compile()).createNestApplication();
    apps.push(app);
    return app.init();
  }

  it('has an example for each feature, and each compiles', () => {
    expect(examples.names).toEqual([
      'quick-start',
      'distributed-lock',
      'lock-service',
      'idempotent',
      'payment-callbacks',
      'quota',
      'module',
      'testing',
    ]);
    expect(examples.typeErrors()).toEqual([]);
  }, 120_000);

  it('quick start: a callback takes effect once, stock is deducted once', async () => {
    const { AppModule, OrdersRepository } = examples.load<Record<string, Type>>('quick-start');
    const app = await start(AppModule!);
    const http = request(app.getHttpServer());
    const callback = { id: 'n-1', orderId: 'o-1', amount: 100 };

    await http.post('/payments/callback').send(callback).expect(200, { code: 'SUCCESS' });
    const orders = app.get<{ paid: Map<string, number> }>(OrdersRepository!);
    expect([...orders.paid]).toEqual([['o-1', 100]]);
    orders.paid.clear();
    await http
      .post('/payments/callback')
      .send(callback)
      .expect(200, { code: 'SUCCESS' })
      .expect('Idempotent-Replayed', 'true');
    expect(orders.paid.size).toBe(0);

    await app.get(QuotaService).init('stock:apple', 5);
    for (let i = 0; i < 2; i++) {
      await http
        .post('/inventory/apple/deduct')
        .set('X-Request-Id', 'r-1')
        .send({ orderId: 'o-1' })
        .expect(201);
    }
    expect(await app.get(QuotaService).remaining('stock:apple')).toBe(4);
    await http.post('/inventory/pear/deduct').set('X-Request-Id', 'r-2').send({ orderId: 'o-2' }).expect(404);
    await http.post('/payments/callback').send({ id: 'n-2' }).expect(400);
  });

  it('@DistributedLock: a handler, a provider, a job, several keys', async () => {
    const { AppModule, StockService } = examples.load<Record<string, Type>>('distributed-lock');
    const app = await start(AppModule!);
    const http = request(app.getHttpServer());
    await http.post('/orders/7/pay').expect(201, { paid: '7' });
    await http.post('/orders/a/move/b').expect(201, 'counted a-b');

    const lock = await app.get(LockService).acquire('lock:order:7');
    await http.post('/orders/7/pay').expect(409).expect('Retry-After', '1');
    await lock.release();

    const stock = app.get<{ expireOrders(): Promise<string | undefined> }>(StockService!);
    const runs = [await stock.expireOrders(), await stock.expireOrders()];
    expect(runs).toContain(undefined); // minHold keeps the slot, however short the job is
  });

  it('LockService: withLock and tryAcquire', async () => {
    const { AppModule, SettlementService } = examples.load<Record<string, Type>>('lock-service');
    const app = await start(AppModule!);
    const settlement = app.get<{ settle(id: string): Promise<number>; tryNightly(): Promise<string> }>(
      SettlementService!,
    );
    expect(await settlement.settle('m-1')).toBe(6);
    expect(await settlement.tryNightly()).toBe('ran');
    const lock = await app.get(LockService).acquire('lock:nightly');
    expect(await settlement.tryNightly()).toBe('busy');
    await lock.release();
  });

  it('@Idempotent: by header, by business key, and for a worker', async () => {
    const { AppModule, CheckoutController, RefundWorker } = examples.load<Record<string, Type>>('idempotent');
    const app = await start(AppModule!);
    const http = request(app.getHttpServer());
    const first = await http.post('/orders').set('X-Request-Id', 'click').send({ sku: 'a' }).expect(201);
    const again = await http.post('/orders').set('X-Request-Id', 'click').send({ sku: 'a' }).expect(201);
    expect(again.text).toBe(first.text);
    await http.post('/orders').set('X-Request-Id', 'click').send({ sku: 'b' }).expect(422);
    await http.post('/orders').send({ sku: 'a' }).expect(400);

    const controller = app.get<{ runs: number }>(CheckoutController!);
    const runs = controller.runs;
    const notify = (trade_status: string) =>
      http.post('/alipay/notify').send({ notify_id: 'n-9', trade_status, notify_time: Date.now() });
    await notify('WAIT_BUYER_PAY').expect(200, 'fail');
    await notify('TRADE_SUCCESS').expect(200, 'success');
    await notify('TRADE_SUCCESS').expect(200, 'success').expect('Idempotent-Replayed', 'true');
    expect(controller.runs - runs).toBe(2);

    const worker = app.get<{ handle(job: { refundId: string }): Promise<unknown> }>(RefundWorker!);
    expect(await worker.handle({ refundId: 'r' })).toEqual({ refunded: 'r', replayed: false });
    expect(await worker.handle({ refundId: 'r' })).toEqual({ refunded: 'r', replayed: true });
  });

  it('payment callbacks: each provider’s repeats get its first reply, and an operator sees the record', async () => {
    const { AppModule, CallbacksController, CallbackDesk } =
      examples.load<Record<string, Type>>('payment-callbacks');
    const app = await start(AppModule!);
    const http = request(app.getHttpServer());
    for (const replayed of [undefined, 'true']) {
      for (const [path, body] of [
        ['wechat', { id: 'w-1' }],
        ['alipay', { notify_id: 'a-1', out_trade_no: 'o-1' }],
        ['stripe', { id: 'evt-1' }],
      ] as const) {
        const reply = await http.post(`/callbacks/${path}`).send(body).expect(200);
        expect(reply.headers['idempotent-replayed']).toBe(replayed);
      }
    }
    const { paid } = app.get<{ paid: string[] }>(CallbacksController!);
    expect(paid).toEqual(['w-1', 'a-1', 'evt-1']);
    const desk = app.get<{ look(id: string): Promise<string>; again(id: string): Promise<boolean> }>(
      CallbackDesk!,
    );
    expect(await desk.look('w-1')).toBe('done, attempt 1');
    expect(await desk.again('w-1')).toBe(true);
    expect(await desk.look('w-1')).toBe('unknown');
  });

  it('QuotaService: takes once, gives back once', async () => {
    const { AppModule, MerchantQuota } = examples.load<Record<string, Type>>('quota');
    const app = await start(AppModule!);
    const quota = app.get<{
      open(merchant: string, amount: number): Promise<void>;
      charge(
        merchant: string,
        orderId: string,
        amount: number,
      ): Promise<{ remaining: number; replayed: boolean }>;
      undo(merchant: string, orderId: string): Promise<{ remaining: number } | null>;
    }>(MerchantQuota!);
    await quota.open('m', 10);
    expect(await quota.charge('m', 'o-1', 4)).toMatchObject({ remaining: 6, replayed: false });
    expect(await quota.charge('m', 'o-1', 4)).toMatchObject({ replayed: true });
    await expect(quota.charge('m', 'o-2', 7)).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED' });
    expect(await quota.undo('m', 'o-1')).toMatchObject({ remaining: 10 });
  });

  it('the module: asynchronous options and a named instance', async () => {
    const { AppModule } = examples.load<Record<string, Type>>('module');
    const app = await start(AppModule!);
    const redis = server.client();
    await app.get(LockService).withLock('k', async () => expect(await redis.exists('shop:k')).toBe(1));
    await app
      .get<LockService>(getLockServiceToken('reports'))
      .withLock('k', async () => expect(await redis.exists('reports:k')).toBe(1));
  });

  it('testing: without Redis, bare, and bound by hand', async () => {
    const example = examples.load<{
      testingModule(): Promise<{ init(): Promise<unknown>; get(type: unknown): any; close(): Promise<void> }>;
      Coupons: Type;
      bare(): Promise<string>;
      bound(locks: LockService): Promise<string>;
    }>('testing');
    const module = await example.testingModule();
    await module.init();
    expect(await module.get(example.Coupons).redeem('SPRING')).toBe('redeemed SPRING');
    expect(await example.bare()).toBe('redeemed SPRING');
    expect(await example.bound(module.get(LockService))).toBe('redeemed SPRING');
    await expect(
      new (example.Coupons as new () => { redeem(code: string): Promise<string> })().redeem('x'),
    ).rejects.toMatchObject({
      code: 'LOCK_CONFIG',
    });
    await module.close();
  });
});
