/**
 * Finds a Chromium for the tests of the sample's page, or installs one where that may be done (root with apt). It never
 * skips: without one the tests fail with one line that says what to install.
 */
const { delimiter, join } = require('node:path');
const { findOrInstall, isExecutable } = require('./apt-install.cjs');

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

/** The browser's binary: `CHROMIUM`, else on the PATH; or undefined. */
function findChromium() {
  const told = process.env.CHROMIUM;
  if (told) {
    if (isExecutable(told)) return told;
    throw new Error(`CHROMIUM names ${told}, which cannot be run: correct or unset it.`);
  }
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable);
}

/** As {@link findChromium}, but installs the browser when there is none. */
function ensureChromium() {
  return findOrInstall({
    find: findChromium,
    packageName: 'chromium',
    advice:
      'The tests of the page need Chromium: install chromium (or Google Chrome), or set CHROMIUM to its path.',
  });
}

module.exports = { ensureChromium, findChromium };
