import { chromium, type Browser, type Page } from 'playwright-core';
import { ensureChromium } from './ensure-chromium.cjs';

/** Headless. Installs Chromium where there is none and it may: give the hook that calls this {@link LAUNCH_LIMIT_MS}. */
export function launchChromium(): Promise<Browser> {
  return chromium.launch({
    executablePath: ensureChromium(),
    // Chromium's sandbox refuses to run as root; the pages here are the project's own.
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
    timeout: 120_000,
  });
}

export const LAUNCH_LIMIT_MS = 500_000;

/** What the eye would see at once in a picture that went wrong. */
export interface Picture {
  width: number;
  height: number;
  colours: number;
  /** The share of the most frequent colour: 1 for a blank picture. */
  blank: number;
}

/** Runs in the browser: as text, because the project is compiled without the browser's types. */
const LOOK = `async (url) => {
  const image = new Image();
  image.src = url;
  await image.decode();
  const { width, height } = image;
  const context = new OffscreenCanvas(width, height).getContext('2d');
  context.drawImage(image, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  return { width, height, colours: counts.size, blank: Math.max(...counts.values()) / pixels.length };
}`;

/** Looks at a PNG with the browser itself. */
export async function look(browser: Browser, png: Buffer): Promise<Picture> {
  const page: Page = await browser.newPage();
  try {
    return await page.evaluate<Picture>(
      `(${LOOK})(${JSON.stringify(`data:image/png;base64,${png.toString('base64')}`)})`,
    );
  } finally {
    await page.close();
  }
}
