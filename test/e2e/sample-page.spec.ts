import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Redis } from 'ioredis';
import { LAUNCH_LIMIT_MS, look } from '../support/chromium.js';
import { LIMIT_MS, PageFixture, PageRobot, type Shop } from './sample-page-fixture.js';

const IMAGES = resolve(__dirname, '../../docs/images');

jest.setTimeout(2 * LIMIT_MS);

describe('the sample: the page', () => {
  let fixture: PageFixture;
  let shop: Shop;
  let neighbour: Shop;
  let robot: PageRobot;

  beforeAll(async () => {
    fixture = await PageFixture.start();
    shop = await fixture.shop();
    neighbour = await fixture.shop();
  }, LAUNCH_LIMIT_MS);

  afterAll(async () => {
    await fixture?.stop();
    await fixture?.browser.close();
  });

  beforeEach(async () => {
    robot = await fixture.open(shop);
  });

  afterEach(async () => {
    expect(robot.complaints).toEqual([]);
    expect(robot.fetched.filter((url) => !url.startsWith(shop.url) && !url.startsWith('data:'))).toEqual([]);
    await robot.close();
  });

  const field = (label: string) => robot.page.getByLabel(label, { exact: true });

  describe('the same callback five times', () => {
    it.each(['Stripe', 'WeChat Pay'])(
      'runs one, replays four, and pays the order once: %s',
      async (provider) => {
        const order = await robot.newOrder();
        const before = { taken: await robot.count('taken'), replayed: await robot.count('replayed') };
        await field('Provider').selectOption(provider);
        expect(await robot.result('Send this callback 5 times', 'callback')).toMatch(
          /^Of 5 deliveries 1 ran, 4 got the stored answer.* The database has 1 payment for this order\.$/,
        );
        await robot.says('#count-taken', String(before.taken + 1));
        await robot.says('#count-replayed', String(before.replayed + 4));
        await robot.says('#timeline .block', `lock:order:${order}`);
        await robot.says('#verdict', 'no overlap');
        await robot.says(
          '#story li',
          `one ${provider === 'Stripe' ? 'stripe' : 'wechat'} callback for order ${order}`,
        );
      },
    );

    it('runs nothing at all when it is sent again', async () => {
      await robot.newOrder();
      await robot.result('Send this callback 5 times', 'callback');
      await robot.press('Send this callback 5 times');
      expect(await robot.says('#callback-result', '5 got the stored answer')).toContain('has 1 payment');
    });

    it.each<[string, Record<string, string>, RegExp]>([
      ['an unknown order', { Order: 'nowhere' }, /5 were refused.*UNKNOWN_ORDER: .*"nowhere".* 0 payments/],
      [
        'a wrong amount',
        { 'Amount in cents': '1' },
        /5 were refused.*WRONG_AMOUNT: .*costs 1990.*says 1\. .* 0 payments/,
      ],
      ['a negative amount', { 'Amount in cents': '-5' }, /5 were refused.*INVALID_INPUT: .*0 payments/],
      [
        'an amount that is no number',
        { 'Amount in cents': 'much' },
        /The amount is a whole number of cents\. .*\(INVALID_INPUT\)/,
      ],
      ['no order', { Order: '' }, /The order has 1 to 64 characters\. \(INVALID_INPUT\)/],
    ])('says in words what is wrong: %s', async (_, change, words) => {
      await robot.newOrder();
      for (const [label, value] of Object.entries(change)) await field(label).fill(value);
      expect(await robot.result('Send this callback 5 times', 'callback')).toMatch(words);
      expect(await robot.page.getAttribute('#callback-result', 'data-tone')).toBe('bad');
    });

    it('says that a signature is forged, and counts the refusals with their reason', async () => {
      const order = await robot.newOrder();
      const refused = await robot.count('refused');
      await field('With a forged signature').check();
      expect(await robot.result('Send this callback 5 times', 'callback')).toMatch(
        /^Of 5 deliveries 5 were refused\. WRONG_SIGNATURE: .* The database has 0 payments/,
      );
      await robot.says('#count-refused', String(refused + 5));
      await robot.says('#reasons', 'wrong signature');
      // What was forged took no lock.
      expect(await robot.page.locator('#timeline').textContent()).not.toContain(order);
    });

    it('shows markup as text', async () => {
      const markup = '<img src=x onerror="document.title=1">';
      await field('Order').fill(markup);
      await robot.result('Send this callback 5 times', 'callback');
      await robot.says('#story', markup);
      expect(await robot.page.locator('img').count()).toBe(0);
      expect(await robot.page.title()).toBe('The sample: what is going on');
    });
  });

  describe('300 buyers', () => {
    it('get as many units as there are, and the page says so', async () => {
      await field('Units to sell').fill('20');
      expect(await robot.result('Let 300 buyers race', 'race')).toBe(
        '20 of 300 buyers got one, 280 were told that it is sold out. The database has sold 20 of 20 units: none too many.',
      );
      expect(await robot.says('#gates [data-gate^="race-"]', '20 sold')).toContain('0 of 20 left');
      await robot.says('#timeline', '300 different locks, one section each');
      await robot.says('#verdict', 'no overlap');
    });

    it.each([
      ['-1', 'There is at least 1 unit to sell. (INVALID_INPUT)'],
      ['301', 'There are at most 300 units to sell: one for each buyer. (INVALID_INPUT)'],
    ])('have their bounds: %s units', async (units, words) => {
      await field('Units to sell').fill(units);
      expect(await robot.result('Let 300 buyers race', 'race')).toBe(words);
    });
  });

  it('kills a holder, and shows its lease run out and the waiter get the lock with a larger fencing token', async () => {
    await robot.press('Kill the holder');
    const held = await robot.says('#locks li', '1 process waits');
    const [, order, token] = /lock:order:([\da-f-]{36}).*fencing token (\d+)/.exec(held)!;
    await robot.says(
      '#story li',
      /Process \d+ is killed\. It released nothing: its lease has \d\.\d s to run\./,
    );
    const [, after] = /larger fencing token (\d+): the order is paid\.$/.exec(await robot.outcome('kill'))!;
    expect(Number(after)).toBeGreaterThan(Number(token));
    const block = robot.page.locator('#timeline .block', { hasText: order! });
    await block.filter({ hasText: '2 sections by 2 processes, no overlap, fencing tokens rise' }).waitFor();
    expect(await block.locator('.killed').count()).toBe(1);
  });

  it('shows the sections of other processes on the same Redis', async () => {
    const other = await fixture.open(neighbour);
    const order = await other.newOrder();
    await other.result('Send this callback 5 times', 'callback');
    await robot.says('#timeline .block', new RegExp(`lock:order:${order}.*pid ${neighbour.child.pid}`));
    await other.close();
  });

  it('marks two holders at once', async () => {
    // As another process of the sample tells its sections.
    const publisher = new Redis(fixture.redis.url);
    const at = Date.now();
    const section = (process: string, fencingToken: number, startedAt: number): object => ({
      type: 'section',
      key: 'lock:order:two-holders',
      process,
      fencingToken,
      startedAt,
      endedAt: startedAt + 100,
    });
    const tell = (...events: object[]): Promise<number> =>
      publisher.publish('sample:activity', JSON.stringify({ from: 'test', events }));
    await tell(section('pid 1', 1, at), section('pid 2', 2, at + 100));
    await robot.says('#timeline .block', /two-holders.*2 sections by 2 processes, no overlap/);
    await robot.says('#verdict', 'no overlap');
    await tell(section('pid 3', 3, at + 150));
    await publisher.quit();
    await robot.says('#verdict', '1 overlap');
    // It stands first, whatever came after it.
    await robot.says('#timeline .block:first-child[data-overlap=true]', '1 overlap: two holders at once');
    await robot.says('#summary', '1 overlap: two holders at once of lock:order:two-holders.');
    expect(await robot.page.locator('.overlap').count()).toBe(1);
  });

  it('refuses what another site sends', async () => {
    const post = async (origin?: string): Promise<[number, string]> => {
      const response = await fetch(`${shop.url}/dashboard/actions/new-order`, {
        method: 'POST',
        headers: origin === undefined ? {} : { origin },
      });
      return [response.status, ((await response.json()) as { code?: string }).code ?? ''];
    };
    expect(await post('http://evil.example')).toEqual([403, 'CROSS_ORIGIN']);
    expect(await post('null')).toEqual([403, 'CROSS_ORIGIN']);
    expect(await post()).toEqual([403, 'CROSS_ORIGIN']);
    expect((await post(shop.url))[0]).toBe(201);
  });

  it('gives out its own files only', async () => {
    for (const path of ['dashboard/..%2f..%2fpackage.json', 'dashboard/secrets.js', 'dashboard/__proto__']) {
      expect((await fetch(`${shop.url}/${path}`)).status).toBe(404);
    }
  });

  describe.each([
    [1280, 'light'],
    [360, 'light'],
    [360, 'dark'],
  ] as const)('at %i pixels, %s', (width, colorScheme) => {
    it('is not blank, and nothing sticks out', async () => {
      const { page } = robot;
      await page.emulateMedia({ colorScheme });
      await robot.resize(width);
      await robot.newOrder();
      await robot.result('Send this callback 5 times', 'callback');
      await robot.says('#timeline .block', 'section');
      await page.getByText('The last sections as a table').click();
      await robot.says('#timeline-table', 'lock:order:');
      expect(await robot.scrollsSideways()).toBe(false);
      const picture = await look(fixture.browser, await page.screenshot({ fullPage: true }));
      expect(picture.width).toBe(width);
      expect(picture.colours).toBeGreaterThan(50);
      expect(picture.blank).toBeLessThan(0.95);
    });
  });

  it('looks as the README shows it', async () => {
    // A shop of its own: the pictures show a short and tidy story.
    const own = await PageFixture.withBrowser(fixture.browser);
    try {
      const seen = await own.open(await own.shop());
      await seen.result('Send this callback 5 times', 'callback');
      await seen.result('Let 300 buyers race', 'race');
      await seen.result('Kill the holder', 'kill');
      await seen.says('#summary', /2 taken, 4 replayed.*, nobody waits\.$/);
      await seen.says('#gates', '100 sold');
      for (const [width, height] of [
        [1280, undefined],
        [360, 1_500],
      ] as const) {
        await seen.resize(width);
        const options = height === undefined ? {} : { clip: { x: 0, y: 0, width, height } };
        const png = await seen.page.screenshot({ fullPage: true, animations: 'disabled', ...options });
        expect((await look(fixture.browser, png)).blank).toBeLessThan(0.95);
        const file = resolve(IMAGES, `sample-page-${width}.png`);
        if (process.env.UPDATE_SCREENSHOTS === '1') {
          mkdirSync(IMAGES, { recursive: true });
          writeFileSync(file, png);
        }
        expect(existsSync(file)).toBe(true);
        expect((await look(fixture.browser, readFileSync(file))).width).toBe(width);
      }
    } finally {
      await own.stop();
    }
  });
});
