import { Body, Controller, Get, Param, Post, type INestApplication } from '@nestjs/common';
import { Redis } from 'ioredis';
import request from 'supertest';
import type { Lock } from '../../lib/lock/lock.js';
import { CurrentLock } from '../../lib/nest/decorators/current-lock.decorator.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import type { RedisLockModuleOptions } from '../../lib/nest/module-options.js';
import { QuotaService } from '../../lib/nest/quota.service.js';
import { RedisLockModule } from '../../lib/nest/redis-lock.module.js';
import { RedisServer } from '../support/redis-server.js';
import { Concurrency, PLATFORMS, startApp, type Platform } from './nest-platforms.js';

describe('on a real Redis', () => {
  let server: RedisServer;
  let client: Redis;
  const apps: INestApplication[] = [];

  beforeAll(async () => {
    server = await RedisServer.start();
    client = new Redis(server.url);
  });
  afterEach(async () => {
    await Promise.all(apps.splice(0).map((app) => app.close()));
    await client.flushall();
  });
  afterAll(async () => {
    await client.quit();
    await server.stop();
  });

  const sections = new Concurrency();

  @Controller()
  class Orders {
    constructor(private readonly quotas: QuotaService) {}

    @Post('orders/:id/pay')
    @DistributedLock('lock:order:<id>')
    async pay(@Param('id') _id: string, @CurrentLock() lock: Lock): Promise<object> {
      const stands = await client.get(`${PREFIX}lock:order:7`);
      await sections.run(() => new Promise((done) => setTimeout(done, 5)));
      return { same: stands === lock.token, fencingToken: lock.fencingToken };
    }

    @Post('callback')
    @Idempotent({ key: 'callback:<id>' })
    @DistributedLock('lock:order:<order>')
    callback(@Body() body: { id: string }): Promise<object> {
      return sections.run(async () => ({ done: body.id }));
    }

    @Get('quota')
    async quota(): Promise<number | null> {
      await this.quotas.init('quota:1', 3);
      await this.quotas.deduct('quota:1', 2);
      return this.quotas.remaining('quota:1');
    }
  }
  const PREFIX = 'shop:';

  async function start(platform: Platform, options: RedisLockModuleOptions = {}): Promise<request.Agent> {
    const app = await startApp(platform, {
      imports: [
        RedisLockModule.forRoot({ redis: server.url, keyPrefix: PREFIX, requireAtStartup: true, ...options }),
      ],
      controllers: [Orders],
    });
    apps.push(app);
    return request(app.getHttpServer());
  }

  it('one request at a time runs, of two applications on two platforms', async () => {
    const agents = await Promise.all(PLATFORMS.map((platform) => start(platform)));
    Object.assign(sections, new Concurrency());
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) => agents[n % 2]!.post('/orders/7/pay').expect(201)),
    );
    expect(sections).toMatchObject({ most: 1, total: 10 });
    const bodies = answers.map(({ body }) => body as { same: boolean; fencingToken: number });
    expect(bodies.every(({ same }) => same)).toBe(true);
    expect(new Set(bodies.map(({ fencingToken }) => fencingToken)).size).toBe(10);
    expect(await client.get(`${PREFIX}lock:order:7`)).toBeNull();
  });

  it.each(PLATFORMS)('a repeated callback is replayed on %s, and a quota is taken', async (platform) => {
    const agent = await start(platform);
    Object.assign(sections, new Concurrency());
    const send = (): request.Test => agent.post('/callback').send({ id: 'n1', order: 'o1' });
    await send().expect(201, { done: 'n1' });
    expect((await send().expect(201, { done: 'n1' })).headers['idempotent-replayed']).toBe('true');
    expect(sections.total).toBe(1);
    await agent.get('/quota').expect(200, '1');
  });

  it("L33: the application's client stays open and unchanged when the application closes", async () => {
    const own = new Redis(server.url);
    const options = JSON.stringify(own.options);
    const agent = await start('Express', { redis: own });
    await agent.post('/orders/7/pay').expect(201);
    await apps.splice(0)[0]!.close();
    expect(own.status).toBe('ready');
    expect(await own.ping()).toBe('PONG');
    expect(JSON.stringify(own.options)).toBe(options);
    await own.quit();
  });

  it('is 503 with Retry-After while Redis is away, and works once it is back', async () => {
    const agent = await start('Fastify', { lock: { waitTimeout: '300ms' } });
    await agent.post('/orders/7/pay').expect(201);
    await server.kill();
    const answer = await agent.post('/orders/7/pay').expect(503);
    expect(answer.body).toEqual({ statusCode: 503, code: 'STORE_UNAVAILABLE', message: expect.any(String) });
    expect(answer.headers['retry-after']).toBe('1');
    await server.restart();
    let status = 0;
    for (let n = 0; n < 100 && status !== 201; n += 1) status = (await agent.post('/orders/7/pay')).status;
    expect(status).toBe(201);
  });
});
