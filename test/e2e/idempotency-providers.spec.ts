import { Body, Controller, HttpCode, Post, ServiceUnavailableException } from '@nestjs/common';
import {
  adyenNotification,
  alipayCallback,
  Idempotent,
  IdempotencyService,
  stripeEvent,
  wechatPayV3Callback,
} from '../../lib/index.js';
import { RedisServer } from '../support/redis-server.js';
import { comparable, Served, type Reply, type Sent } from './idempotency-http.js';
import { gate, PLATFORMS } from './nest-platforms.js';
import * as bodies from './provider-bodies.js';

/** What the handlers do, decided by each test. */
class Work {
  runs = 0;
  reply: () => unknown = () => undefined;

  run(): unknown {
    this.runs += 1;
    return this.reply();
  }
}

const work = new Work();

@Controller('callbacks')
class CallbacksController {
  @Post('wechat')
  @HttpCode(200)
  @Idempotent({ ...wechatPayV3Callback })
  wechat(): unknown {
    return work.run();
  }

  @Post('alipay')
  @HttpCode(200)
  @Idempotent({ ...alipayCallback })
  alipay(@Body() { trade_status }: { trade_status: string }): unknown {
    expect(trade_status).toBe('TRADE_SUCCESS');
    return work.run();
  }

  @Post('stripe')
  @HttpCode(200)
  @Idempotent({ ...stripeEvent })
  stripe(): unknown {
    return work.run();
  }

  @Post('stripe/connect')
  @HttpCode(200)
  @Idempotent({ ...stripeEvent, scope: () => 'connect' })
  stripeConnect(): unknown {
    return work.run();
  }

  @Post('adyen')
  @HttpCode(200)
  @Idempotent({ ...adyenNotification })
  adyen(): unknown {
    return work.run();
  }
}

interface Provider {
  path: string;
  /** One delivery of a notification; `delivery` changes what differs between deliveries. */
  send(id: string, delivery: number): Sent;
  success: unknown;
  successText: string;
  /** With status 200, but the provider's own form of "no". */
  failure: unknown;
  inFlight: string;
  /** What `IdempotencyService` finds the record by. */
  key(id: string): string;
  withoutId: Sent[];
}

const json = (body: unknown): Sent => ({ body });
const form = (fields: Record<string, string>): Sent => ({
  text: new URLSearchParams(fields).toString(),
  headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
});
const item = (fields: object) => ({ NotificationRequestItem: fields });

const PROVIDERS: Record<string, Provider> = {
  wechatPayV3Callback: {
    path: '/callbacks/wechat',
    send: (id, delivery) => json(bodies.wechatPay(id, delivery)),
    success: { code: 'SUCCESS', message: 'OK' },
    successText: '{"code":"SUCCESS","message":"OK"}',
    failure: { code: 'FAIL', message: 'amount differs' },
    inFlight: '{"code":"FAIL","message":"the first delivery is still being processed"}',
    key: (id) => `wechat:${id}`,
    withoutId: [json({}), json({ ...bodies.wechatPay('x', 1), id: '' }), json({ id: { a: 1 } })],
  },
  alipayCallback: {
    path: '/callbacks/alipay',
    send: (id, delivery) => form(bodies.alipay(id, delivery)),
    success: 'success',
    successText: 'success',
    failure: 'fail',
    inFlight: 'fail',
    key: (id) => `alipay:${id}`,
    withoutId: [form({}), form({ ...bodies.alipay('x', 1), notify_id: '' })],
  },
  stripeEvent: {
    path: '/callbacks/stripe',
    send: (id, delivery) => json(bodies.stripe(id, delivery)),
    success: { received: true },
    successText: '{"received":true}',
    failure: { received: false },
    inFlight: '{"received":false}',
    key: (id) => `stripe:${id}`,
    withoutId: [json({}), json({ ...bodies.stripe('x', 1), id: null }), json([])],
  },
  adyenNotification: {
    path: '/callbacks/adyen',
    send: (id, delivery) => json(bodies.adyen(id, delivery)),
    success: '[accepted]',
    successText: '[accepted]',
    failure: { notificationResponse: '[failed]' },
    inFlight: '{"notificationResponse":"[in progress]"}',
    key: (id) => `adyen:${id}:AUTHORISATION:true`,
    withoutId: [
      json({}),
      json({ live: 'false', notificationItems: [] }),
      json({ notificationItems: 'none' }),
      json({ notificationItems: [null] }),
      json({ notificationItems: [item({ eventCode: 'AUTHORISATION', success: 'true' })] }),
      json({ notificationItems: [item({ pspReference: 'p', success: 'true' })] }),
      json({ notificationItems: [item({ pspReference: 'p', eventCode: 'REFUND' })] }),
      json({ notificationItems: [...bodies.adyen('p', 1).notificationItems, item({})] }),
    ],
  },
};

const replayed = ({ headers }: Reply) => headers['idempotent-replayed'] === 'true';

describe.each(PLATFORMS)('callbacks of payment providers on %s', (platform) => {
  let server: RedisServer;
  let served: Served;
  let ids = 0;
  const freshId = () => `${platform}-${++ids}-A1B2C3`;

  beforeAll(async () => {
    server = await RedisServer.start();
    served = await Served.start(platform, server, [CallbacksController]);
  });
  afterAll(async () => {
    await served.close();
    await server.stop();
  });
  beforeEach(() => {
    work.runs = 0;
  });

  describe.each(Object.entries(PROVIDERS))('%s', (_name, provider) => {
    const { path, send, success, successText, failure, inFlight, key, withoutId } = provider;

    it('I22: a redelivery is answered with the first reply, byte for byte', async () => {
      work.reply = () => success;
      const id = freshId();
      const first = await served.send(path, send(id, 1));
      expect(first).toMatchObject({ status: 200, text: successText });
      for (const delivery of [2, 3]) {
        const again = await served.send(path, send(id, delivery));
        expect(replayed(again)).toBe(true);
        expect(comparable(again)).toEqual(comparable(first));
      }
      expect(work.runs).toBe(1);
      expect(replayed(await served.send(path, send(freshId(), 1)))).toBe(false);
    });

    it('I1: a repeat that meets the first still running never gets a success', async () => {
      const [started, going] = [gate(), gate()];
      work.reply = async () => {
        started.open();
        await going.opened;
        return success;
      };
      const id = freshId();
      const first = served.send(path, send(id, 1));
      await started.opened;
      for (const delivery of [2, 3]) {
        const repeat = await served.send(path, send(id, delivery));
        expect(repeat).toMatchObject({ status: 409, text: inFlight });
        expect(repeat.headers['retry-after']).toBe('1');
      }
      going.open();
      expect(await first).toMatchObject({ status: 200, text: successText });
      expect(replayed(await served.send(path, send(id, 4)))).toBe(true);
      expect(work.runs).toBe(1);
    });

    it('I23: a reply that means failure is not kept: the redelivery runs', async () => {
      const id = freshId();
      work.reply = () => failure;
      const failed = await served.send(path, send(id, 1));
      expect(failed.status).toBe(200);
      work.reply = () => {
        throw new ServiceUnavailableException();
      };
      expect((await served.send(path, send(id, 2))).status).toBe(503);
      expect(await served.app.get(IdempotencyService).inspect(key(id))).toBeNull();
      work.reply = () => success;
      const done = await served.send(path, send(id, 3));
      expect(replayed(done)).toBe(false);
      expect(done).toMatchObject({ status: 200, text: successText });
      expect(work.runs).toBe(3);
    });

    it('an empty reply counts by its status', async () => {
      work.reply = () => undefined;
      const id = freshId();
      await served.send(path, send(id, 1));
      const again = await served.send(path, send(id, 2));
      // Alipay reads the body, so nothing in it is no success
      expect(replayed(again)).toBe(successText !== 'success');
    });

    it('I33: a body without the id is 400 and runs nothing, whatever the module says', async () => {
      const lax = await Served.start(platform, server, [CallbacksController], {
        module: { idempotency: { required: false } },
      });
      for (const sent of withoutId) {
        const reply = await lax.send(path, sent);
        expect(reply.status).toBe(400);
        expect(JSON.parse(reply.text)).toMatchObject({ code: 'IDEMPOTENCY_KEY' });
      }
      await lax.close();
      expect(work.runs).toBe(0);
    });

    it('I24, I34: the record outlives the redeliveries, and an operator finds it by the business key', async () => {
      work.reply = () => success;
      const id = freshId();
      await served.send(path, send(id, 1));
      const record = await served.app.get(IdempotencyService).inspect(key(id));
      expect(record).toMatchObject({ state: 'done', replayable: true });
      const hours = (await server.client().pttl(record!.recordKey)) / 3_600_000;
      const redeliveredForHours = { wechat: 24.1, alipay: 24.4, stripe: 72, adyen: 720 }[
        path.split('/')[2]!
      ]!;
      expect(hours).toBeGreaterThan(redeliveredForHours);
    });
  });

  it('Adyen: another success, event or item is another notification', async () => {
    work.reply = () => '[accepted]';
    const id = freshId();
    const one = bodies.adyen(id, 1).notificationItems[0]!.NotificationRequestItem;
    const different = [
      [one],
      [{ ...one, success: 'false' }],
      [{ ...one, eventCode: 'CAPTURE' }],
      [one, { ...one, eventCode: 'CAPTURE' }],
      [{ ...one, pspReference: `${id}:AUTHORISATION:true,${id}`, eventCode: 'CAPTURE' }],
    ];
    for (const items of different) {
      const body = { live: 'false', notificationItems: items.map(item) };
      expect(replayed(await served.send('/callbacks/adyen', { body }))).toBe(false);
      expect(replayed(await served.send('/callbacks/adyen', { body }))).toBe(true);
    }
    expect(work.runs).toBe(different.length);
  });

  it('Stripe: one event at two endpoints runs at each, where each has a scope', async () => {
    work.reply = () => ({ received: true });
    const id = freshId();
    for (const path of ['/callbacks/stripe', '/callbacks/stripe/connect']) {
      expect(replayed(await served.send(path, { body: bodies.stripe(id, 1) }))).toBe(false);
      expect(replayed(await served.send(path, { body: bodies.stripe(id, 2) }))).toBe(true);
    }
    expect(work.runs).toBe(2);
  });
});
