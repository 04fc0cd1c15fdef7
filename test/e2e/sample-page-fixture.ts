import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { Child } from '../support/child.js';
import { launchChromium } from '../support/chromium.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';

const MAIN = resolve(__dirname, '../../sample-app/src/main.ts');
/** Bounds hanging, on a machine ten times slower than any of today. */
export const LIMIT_MS = 120_000;

/** One process of the sample, as `npm start` runs it. */
export interface Shop {
  url: string;
  child: Child;
}

/** Processes of the sample on one Redis and one database, and a browser to look at them. */
export class PageFixture {
  private readonly children: Child[] = [];

  private constructor(
    readonly redis: RedisServer,
    readonly browser: Browser,
    private readonly folder: string,
  ) {}

  static async start(): Promise<PageFixture> {
    return PageFixture.withBrowser(await launchChromium());
  }

  /** With a Redis and a database of its own; the browser is closed by whoever opened it. */
  static async withBrowser(browser: Browser): Promise<PageFixture> {
    return new PageFixture(await RedisServer.start(), browser, mkdtempSync(join(tmpdir(), 'sample-page-')));
  }

  async stop(): Promise<void> {
    await Promise.all(this.children.map((child) => child.kill()));
    await this.redis.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Resolves when it listens. */
  async shop(env: Record<string, string> = {}): Promise<Shop> {
    const child = Child.start(MAIN, {
      env: {
        REDIS_URL: this.redis.url,
        DATABASE_URL: '',
        DATABASE_FILE: join(this.folder, 'sample.db'),
        PORT: '0',
        NODE_ENV: '',
        ...env,
      },
    });
    this.children.push(child);
    const url = await waitFor(() => /Listening on (\S+)\./.exec(child.text)?.[1], {
      timeoutMs: LIMIT_MS,
      what: `a sample that listens: ${child.text}`,
    });
    return { url, child };
  }

  async open({ url }: Shop, options: BrowserContextOptions = {}): Promise<PageRobot> {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    context.setDefaultTimeout(LIMIT_MS);
    const page = await context.newPage();
    const robot = new PageRobot(page);
    await page.goto(url);
    await robot.says('#connection', 'Live');
    // The first news is there: from now on fields are filled by nobody else.
    await robot.says('#where', 'Seen from');
    return robot;
  }
}

/** Presses and reads, as a visitor does. */
export class PageRobot {
  /** What the browser complained of: a fault of a script, or what the content security policy refused. */
  readonly complaints: string[] = [];
  /** Everything that was fetched. */
  readonly fetched: string[] = [];

  constructor(readonly page: Page) {
    page.on('pageerror', (error) => this.complaints.push(error.message));
    page.on('console', (message) => {
      // An answer of 4xx is told there too: those are what the tests ask for.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
        this.complaints.push(message.text());
      }
    });
    page.on('request', (request) => this.fetched.push(request.url()));
  }

  press(button: string): Promise<void> {
    return this.page.getByRole('button', { name: button }).click();
  }

  /** Presses a form's button, and resolves with what the page then says of it. */
  async result(button: string, form: 'callback' | 'race' | 'kill'): Promise<string> {
    await this.press(button);
    return this.outcome(form);
  }

  async outcome(form: 'callback' | 'race' | 'kill'): Promise<string> {
    const output = this.page.locator(`#${form}-result:is([data-tone=good], [data-tone=bad])`);
    return (await output.textContent()) ?? '';
  }

  /** Resolves with the new order's id, which then stands in the form. */
  async newOrder(): Promise<string> {
    await this.result('New order', 'callback');
    return this.page.getByLabel('Order', { exact: true }).inputValue();
  }

  /** Resolves when the text of the element matches. */
  async says(selector: string, text: string | RegExp): Promise<string> {
    const element = this.page.locator(selector).filter({ hasText: text }).first();
    try {
      await element.waitFor({ state: 'attached' });
    } catch (cause) {
      const instead = await this.page.locator('main').innerText();
      throw new Error(`${selector} does not say ${text}; the page says:\n${instead}`, { cause });
    }
    return (await element.textContent()) ?? '';
  }

  count(outcome: 'in' | 'taken' | 'replayed' | 'refused'): Promise<number> {
    return this.page.locator(`#count-${outcome}`).textContent().then(Number);
  }

  /** Resolves when the page has drawn itself for this width. */
  async resize(width: number): Promise<void> {
    await this.page.setViewportSize({ width, height: 800 });
    // What observes the size is told in the first frame, and draws in the next.
    const frame = 'new Promise((resolve) => requestAnimationFrame(() => resolve()))';
    for (let frames = 0; frames < 3; frames += 1) await this.page.evaluate(frame);
  }

  scrollsSideways(): Promise<boolean> {
    return this.page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth');
  }

  close(): Promise<void> {
    return this.page.context().close();
  }
}
