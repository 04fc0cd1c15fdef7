import { setTimeout as sleep } from 'node:timers/promises';
import { LockService } from 'nestjs-redis-lock';
import { ActivityService, type ActivityEvent } from '../../sample-app/src/activity/activity.service.js';
import { waitFor } from '../support/wait-for.js';
import { MERCHANT, Sample, notice } from './sample-fixture.js';

describe('the sample: the feed of activity', () => {
  let sample: Sample;
  let other: Awaited<ReturnType<Sample['another']>>;
  const here: ActivityEvent[] = [];
  const there: ActivityEvent[] = [];

  beforeAll(async () => {
    sample = await Sample.start();
    other = await sample.another();
    sample.app.get(ActivityService).events.subscribe((event) => here.push(event));
    other.app.get(ActivityService).events.subscribe((event) => there.push(event));
  });

  afterAll(async () => {
    await other.close();
    await sample.stop();
  });

  const outcomes = (events: ActivityEvent[], orderId: string): unknown[] =>
    events.flatMap((event) =>
      event.type === 'callback' && event.orderId === orderId ? [[event.outcome, event.reason]] : [],
    );

  it('tells what became of each callback, to every process', async () => {
    await sample.pendingOrder('a1');
    await sample.notify(notice('a1'));
    await sample.notify(notice('a1'));
    await sample.notify(notice('a1', { notificationId: 'n2', transactionId: 't2' }));
    const expected = [
      ['taken', undefined],
      ['replayed', undefined],
      ['refused', 'OTHER_PAYMENT'],
    ];
    for (const events of [here, there]) {
      await waitFor(() => outcomes(events, 'a1').length === expected.length);
      expect(outcomes(events, 'a1')).toEqual(expected);
      const arrived = events.filter((event) => event.type === 'callback' && event.outcome === 'in');
      expect(arrived).toHaveLength(expected.length);
      for (const type of ['stock', 'quota']) expect(events.map((event) => event.type)).toContain(type);
    }
  });

  it('tells a forged callback apart', async () => {
    await sample.post('/payments/stripe', {});
    const forged = { type: 'callback', outcome: 'refused', reason: 'WRONG_SIGNATURE' };
    await waitFor(() => there.some((event) => event.type === 'callback' && event.reason === forged.reason));
    expect(there).toContainEqual(forged);
  });

  it('tells the sections of every process, which of one key do not overlap', async () => {
    const key = 'lock:shown';
    const apps = [sample.app, other.app];
    await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        apps[n % 2]!.get(LockService).withLock(key, (lock) =>
          apps[n % 2]!.get(ActivityService).section(lock, () => sleep(3)),
        ),
      ),
    );
    const sections = (events: ActivityEvent[]) =>
      events.flatMap((event) => (event.type === 'section' && event.key === key ? [event] : []));
    // those of the callbacks above: two ran, and the replayed one did not
    const paid = there.filter((event) => event.type === 'section' && event.key === 'lock:order:a1');
    expect(paid).toHaveLength(2);
    for (const events of [here, there]) {
      await waitFor(() => sections(events).length === 20);
      const inOrder = sections(events).toSorted((a, b) => a.fencingToken - b.fencingToken);
      for (const [index, { startedAt, endedAt, process }] of inOrder.entries()) {
        expect(process).toMatch(/^pid \d+$/);
        expect(endedAt).toBeGreaterThanOrEqual(startedAt);
        if (index > 0) expect(startedAt).toBeGreaterThanOrEqual(inOrder[index - 1]!.endedAt);
      }
    }
  });

  it('has beside it what there is to read: stock and quotas', async () => {
    expect((await sample.get('/inventory')).json[0]).toMatchObject({ remaining: expect.any(Number) });
    expect((await sample.get(`/merchants/${MERCHANT}`)).json).toMatchObject({ spent: 1, remaining: 9_999 });
  });
});
