import { Body, Controller, Post } from '@nestjs/common';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { IdempotencyService } from '../../lib/nest/idempotency.service.js';
import type { IdempotencyRecordInfo } from '../../lib/idempotency/idempotency.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { Served, type Reply } from './idempotency-http.js';
import { gate, PLATFORMS } from './nest-platforms.js';

const codeOf = ({ text }: Reply) => (JSON.parse(text) as { code?: string }).code;
const replayed = ({ headers }: Reply) => headers['idempotent-replayed'] === 'true';

/** What the handler below meets: the gate of each run, in order; a run beyond them goes straight through. */
class Work {
  runs = 0;
  gates: Array<ReturnType<typeof gate>> = [];
  fails = new Set<number>();
}

@Controller('pay')
class PayController {
  constructor(private readonly work: Work) {}

  private async run(): Promise<object> {
    const run = ++this.work.runs;
    await this.work.gates[run - 1]?.opened;
    if (this.work.fails.has(run)) throw new Error('declined');
    return { run };
  }

  @Post()
  @Idempotent({ key: 'pay:<body.id>', lease: 400, ttl: '72h', fingerprint: ['amount'] })
  pay(@Body() _body: object): Promise<object> {
    return this.run();
  }

  @Post('wait')
  @Idempotent({ key: 'pay:<body.id>', onConcurrent: 'wait', waitTimeout: '20s' })
  wait(): Promise<object> {
    return this.run();
  }
}

describe.each(PLATFORMS)('requests on %s when the store or an owner fails', (platform) => {
  let server: RedisServer;
  let proxy: TcpProxy;
  let served: Served;
  let work: Work;
  let order = 0;
  let id: string;

  beforeAll(async () => {
    server = await RedisServer.start();
    proxy = await TcpProxy.start(server.port);
    served = await Served.start(platform, proxy.url, [PayController], { providers: [Work] });
    work = served.app.get(Work);
  });
  afterAll(async () => {
    await served?.close();
    await proxy.stop();
    await server.stop();
  });
  beforeEach(() => {
    id = `s${++order}`;
    Object.assign(work, { runs: 0, gates: [], fails: new Set() });
  });

  const post = (path = '/pay', amount = 1): Promise<Reply> => served.send(path, { body: { id, amount } });
  const record = (): Promise<IdempotencyRecordInfo | null> =>
    served.app.get(IdempotencyService).inspect(`pay:${id}`);
  /** A first request that stands in its handler. */
  async function running(): Promise<{ reply: Promise<Reply>; open: () => void; recordKey: string }> {
    const standing = gate();
    const run = work.runs + 1;
    work.gates[run - 1] = standing;
    const reply = post();
    await waitFor(() => work.runs === run);
    return { reply, open: standing.open, recordKey: (await record())!.recordKey };
  }

  it('I12: an owner that died (its lease has run out) is followed by attempt 2, under the same fingerprint', async () => {
    const redis = server.client();
    expect((await post()).status).toBe(201);
    const { recordKey } = (await record())!;
    // as a process leaves it that was killed in its handler
    await redis.hset(recordKey, { state: 'pending', owner: 'dead', lease: '1' });
    expect([(await post('/pay', 2)).status, work.runs]).toEqual([422, 1]);
    expect((await post()).text).toBe('{"run":2}');
    expect(await record()).toMatchObject({ state: 'done', attempt: 2 });
  });

  it('I13: a slow owner that lost its lease answers with the reply of the one that finished first', async () => {
    const redis = server.client();
    const first = await running();
    // another owner's from now on, as after a takeover: its renewals are refused
    await redis.hset(first.recordKey, { owner: 'another', lease: '1' });
    const second = post();
    await waitFor(() => work.runs === 2, { what: 'the takeover' });
    expect(await second).toMatchObject({ status: 201, text: '{"run":2}' });
    first.open();
    expect(await first.reply).toMatchObject({ status: 201, text: '{"run":2}' });
    expect((await post()).text).toBe('{"run":2}');
  });

  it('I14, I15: renewals that fail for less than the lease are nothing', async () => {
    const first = await running();
    const cutAt = Date.now();
    proxy.cut();
    // longer than the time between two renewals, a third of the lease
    await waitFor(() => Date.now() - cutAt > 200);
    proxy.open();
    first.open();
    expect(await first.reply).toMatchObject({ status: 201, text: '{"run":1}' });
    await waitFor(async () => (await record())?.state === 'done', { what: 'the record to be done' });
    expect(replayed(await post())).toBe(true);
  });

  it('I15, I32: with the store away at completion the client is answered, and the record is done later', async () => {
    const first = await running();
    proxy.cut();
    first.open();
    const reply = await first.reply;
    expect([reply.status, reply.text, replayed(reply)]).toEqual([201, '{"run":1}', false]);
    expect((await post()).status).toBe(503);
    proxy.open();
    await waitFor(async () => (await record().catch(() => null))?.state === 'done', {
      what: 'the record to be done',
    });
    expect(await post()).toMatchObject({ text: '{"run":1}', headers: { 'idempotent-replayed': 'true' } });
    expect(work.runs).toBe(1);
  });

  it('I16, I31: a record that vanishes while the handler runs is written all the same', async () => {
    const redis = server.client();
    const first = await running();
    await redis.del(first.recordKey);
    // the next renewal finds it gone and writes it again
    await waitFor(async () => (await redis.exists(first.recordKey)) === 1, { what: 'the renewal' });
    expect(codeOf(await post())).toBe('IDEMPOTENCY_IN_PROGRESS');
    await redis.del(first.recordKey);
    first.open();
    expect((await first.reply).text).toBe('{"run":1}');
    expect(replayed(await post())).toBe(true);
    expect(work.runs).toBe(1);
  });

  it.each([
    ['of an unknown version', { payload: '\xff\x00?' }],
    ['that is damaged', { state: 'broken' }],
  ])('I17: a record %s counts as done and unreplayable, never as absent', async (_what, fields) => {
    await post();
    await server.client().hset((await record())!.recordKey, fields);
    expect(codeOf(await post())).toBe('IDEMPOTENCY_UNREPLAYABLE');
    expect(work.runs).toBe(1);
  });

  it('I24: a redelivery 24 h 04 min later is a replay, with a ttl of 72 h', async () => {
    const redis = server.client();
    const HOUR = 3_600_000;
    await post();
    const { recordKey } = (await record())!;
    const left = await redis.pttl(recordKey);
    expect(left).toBeGreaterThan(71 * HOUR);
    await redis.pexpire(recordKey, left - (24 * HOUR + 4 * 60_000));
    expect(replayed(await post())).toBe(true);
  });

  it('I26: when the first fails, exactly one of the waiting repeats runs', async () => {
    work.fails.add(1);
    const first = await running();
    const waiting = Array.from({ length: 10 }, () => post('/pay/wait'));
    first.open();
    expect((await first.reply).status).toBe(500);
    const replies = await Promise.all(waiting);
    expect(new Set(replies.map(({ status, text }) => `${status} ${text}`))).toEqual(
      new Set(['201 {"run":2}']),
    );
    expect(replies.filter((reply) => !replayed(reply))).toHaveLength(1);
  });

  it('I30: a begin that was applied and never answered: 503, and the next request runs at once as attempt 1', async () => {
    proxy.dropReplies();
    expect((await post()).status).toBe(503);
    expect(work.runs).toBe(0);
    proxy.pass();
    await waitFor(async () => (await record().catch(() => 'away')) === null, {
      what: 'the begin to be abandoned',
    });
    expect(await post()).toMatchObject({ status: 201, text: '{"run":1}' });
    expect(await record()).toMatchObject({ attempt: 1 });
  });
});
