import { LockService, isRedisLockError, type Lock } from 'nestjs-redis-lock';
import { ProviderClient } from '../../sample-app/src/payments/provider.client.js';
import { SettlementService } from '../../sample-app/src/payments/settlement.service.js';
import { startLocks } from '../support/locks.js';
import { DATABASES, Sample, notice } from './sample-fixture.js';

describe.each(DATABASES)('the sample: the fence in %s', (where) => {
  let sample: Sample;
  let locks: LockService;
  let settlement: SettlementService;

  beforeAll(async () => {
    sample = await Sample.start(where);
    locks = sample.app.get(LockService);
    settlement = sample.app.get(SettlementService);
  });

  afterAll(() => sample.stop());
  afterEach(() => jest.restoreAllMocks());

  /** Stops every settlement between its look at the order and its write, until it is let go. */
  function holdAtProvider(): { arrived(count: number): Promise<void>; letGo(index: number): void } {
    const gates: (() => void)[] = [];
    let onArrival = (): void => undefined;
    jest.spyOn(sample.app.get(ProviderClient), 'confirm').mockImplementation(
      () =>
        new Promise((resolve) => {
          gates.push(resolve);
          onArrival();
        }),
    );
    return {
      arrived: (count) =>
        new Promise((resolve) => {
          onArrival = () => gates.length >= count && resolve();
          onArrival();
        }),
      letGo: (index) => gates[index]!(),
    };
  }

  const settle = (orderId: string, change: object, lock: Lock): Promise<unknown> =>
    settlement.settle(notice(orderId, change), lock).then(
      () => 'paid',
      (error: unknown) => error,
    );

  it('L42: a stopped holder is refused once its successor has claimed the row, even before that one writes', async () => {
    await sample.pendingOrder('f1');
    const provider = holdAtProvider();
    // Long renewals: the first holder goes on believing, as a process does that was stopped.
    const first = await locks.acquire('lock:order:f1', { ttl: '60s' });
    const firstDone = settle('f1', { notificationId: 'n1', transactionId: 't1' }, first);
    await provider.arrived(1);

    await sample.redis.client().del('lock:order:f1');
    // another process: in one process a hold that others wait behind is looked at every second
    const other = await startLocks(sample.redis.url);
    const second = await other.locks.acquire('lock:order:f1');
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
    const secondDone = settle('f1', { notificationId: 'n2', transactionId: 't2' }, second);
    await provider.arrived(2);

    expect(first.held).toBe(true);
    provider.letGo(0);
    expect(await firstDone).toMatchObject({ status: 409, response: { code: 'STALE_HOLDER' } });
    expect((await sample.get('/orders/f1')).json).toMatchObject({ status: 'pending', payments: [] });
    expect(await sample.refusals('t1')).toEqual([{ reason: 'stale holder' }]);

    provider.letGo(1);
    expect(await secondDone).toBe('paid');
    expect((await sample.get('/orders/f1')).json.payments).toMatchObject([
      { transaction_id: 't2', fence: second.fencingToken },
    ]);
    await Promise.all([first.release(), second.release()]);
    await other.close();
  });

  it('L42: a stopped holder that wakes before it has looked cannot even claim the row', async () => {
    await sample.pendingOrder('f2');
    const first = await locks.acquire('lock:order:f2', { ttl: '60s' });
    await sample.redis.client().del('lock:order:f2');
    const second = await locks.acquire('lock:order:f2', { reentrant: false });
    expect(await settle('f2', { notificationId: 'n4', transactionId: 't4' }, second)).toBe('paid');
    expect(await settle('f2', { notificationId: 'n3', transactionId: 't3' }, first)).toMatchObject({
      response: { code: 'STALE_HOLDER' },
    });
    expect(await sample.refusals('t3')).toEqual([{ reason: 'stale holder' }]);
    await Promise.all([first.release(), second.release()]);
  });

  it('a payment that is committed is answered as such, and replayed, though Redis lost the lock meanwhile', async () => {
    await sample.pendingOrder('f4');
    const provider = holdAtProvider();
    const first = sample.notify(notice('f4'));
    await provider.arrived(1);
    await sample.redis.client().del('lock:order:f4');
    provider.letGo(0);
    expect((await first).status).toBe(200);
    const repeat = await sample.notify(notice('f4'));
    expect({ status: repeat.status, replayed: repeat.headers.get('idempotent-replayed') }).toEqual({
      status: 200,
      replayed: 'true',
    });
  });

  it('a holder that knows of its loss does not write at all', async () => {
    await sample.pendingOrder('f3');
    const provider = holdAtProvider();
    const lock = await locks.acquire('lock:order:f3');
    const done = settle('f3', { notificationId: 'n5', transactionId: 't5' }, lock);
    await provider.arrived(1);
    await lock.release();
    provider.letGo(0);
    expect(isRedisLockError(await done, 'LOCK_LOST')).toBe(true);
    expect(await sample.refusals('t5')).toEqual([]);
    expect((await sample.get('/orders/f3')).json.status).toBe('pending');
  });
});
