import { LAUNCH_LIMIT_MS } from '../support/chromium.js';
import { LIMIT_MS, PageFixture } from './sample-page-fixture.js';

jest.setTimeout(2 * LIMIT_MS);

describe('the sample: the page for everybody, and where it is not wanted', () => {
  let fixture: PageFixture;

  beforeAll(async () => {
    fixture = await PageFixture.start();
  }, LAUNCH_LIMIT_MS);

  afterAll(async () => {
    await fixture?.stop();
    await fixture?.browser.close();
  });

  it('is used with the keyboard, read by a screen reader, and still when asked to be', async () => {
    const robot = await fixture.open(await fixture.shop(), { reducedMotion: 'reduce' });
    const { page } = robot;

    // Landmarks and headings: where am I, where can I go?
    for (const name of ['banner', 'main', 'contentinfo'] as const) {
      expect(await page.getByRole(name).count()).toBe(1);
    }
    for (const name of [
      'Callbacks',
      'Critical sections',
      'Locks now',
      'Try to break it',
      'Stock and quota',
      'What happened',
    ]) {
      expect(await page.getByRole('region', { name, exact: true }).first().isVisible()).toBe(true);
      expect(await page.getByRole('heading', { name, exact: true, level: 2 }).count()).toBe(1);
    }
    const unnamed = await page.evaluate<string[]>(
      "[...document.querySelectorAll('input, select')].filter(({ labels }) => labels.length === 0).map(({ id }) => id)",
    );
    expect(unnamed).toEqual([]);

    // The keyboard alone: to the button, press it, and the focus stays there.
    const focused = page.locator('button:focus', { hasText: 'Send this callback 5 times' });
    for (let presses = 0; presses < 20 && (await focused.count()) === 0; presses += 1) {
      await page.keyboard.press('Tab');
    }
    expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid');
    await page.keyboard.press('Enter');
    expect(await robot.outcome('callback')).toContain('1 ran, 4 got the stored answer');
    expect(await focused.count()).toBe(1);

    // News is told politely, and a picture has its words.
    await page
      .getByRole('status')
      .filter({ hasText: /\d+ callbacks in: 1 taken, 4 replayed/ })
      .waitFor();
    expect(await page.locator('#summary').getAttribute('aria-live')).toBe('polite');
    await page.getByRole('img', { name: /^lock:order:.*: 1 section by 1 process, no overlap$/ }).waitFor();

    await robot.says('#gates', '1 sold');
    const durations = await page.evaluate<string[]>(
      "[...document.querySelectorAll('.fill')].map((bar) => getComputedStyle(bar).transitionDuration)",
    );
    expect(durations.length).toBeGreaterThan(0);
    expect(new Set(durations)).toEqual(new Set(['0s']));
    await robot.close();
  });

  it('has its buttons switched off in production, ends at SIGTERM though it is watched, and comes back', async () => {
    const shop = await fixture.shop({ NODE_ENV: 'production' });
    const robot = await fixture.open(shop);
    await robot.says(
      '#actions-off',
      'The buttons are switched off: this process runs with NODE_ENV=production.',
    );
    const buttons = robot.page.getByRole('button');
    expect(await buttons.count()).toBe(4);
    expect(await robot.page.locator('button:enabled').count()).toBe(0);
    for (const action of ['send-callback', 'race', 'kill-holder', 'new-order']) {
      const response = await fetch(`${shop.url}/dashboard/actions/${action}`, {
        method: 'POST',
        headers: { origin: shop.url, 'content-type': 'application/json' },
        body: '{}',
      });
      expect([response.status, await response.json()]).toEqual([
        403,
        expect.objectContaining({ code: 'ACTIONS_OFF' }),
      ]);
    }

    // The page's open stream must not keep the process.
    await shop.child.terminate();
    await robot.says('#connection', 'Connection lost');
    await fixture.shop({ PORT: new URL(shop.url).port });
    await robot.says('#connection', 'Live');
    await robot.page.locator('button:enabled').first().waitFor();
    await robot.close();
  });

  it('says why no holder can be killed where locks live in one process', async () => {
    const shop = await fixture.shop({ REDIS_URL: '', REDIS_SERVER: '', PATH: '/nonexistent' });
    const robot = await fixture.open(shop);
    await robot.says('#actions-off', 'Locks live in the memory of this process');
    expect(await robot.page.getByRole('button', { name: 'Kill the holder' }).isDisabled()).toBe(true);
    expect(await robot.result('Send this callback 5 times', 'callback')).toContain(
      '1 ran, 4 got the stored answer',
    );
    await robot.close();
  });

  it('says that Redis is away instead of showing old locks', async () => {
    const robot = await fixture.open(await fixture.shop());
    await robot.says('#locks', 'No lock is held.');
    await fixture.redis.stop();
    await robot.says('#locks', 'The locks cannot be read');
    await robot.close();
  });
});
