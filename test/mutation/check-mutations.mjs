import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { mutants } from './mutants.mjs';

/**
 * Takes out, one at a time, the lines that matter most, and expects a test to fail each time. A line that can
 * go without a test noticing is a line that will go one day.
 *
 *     npm run check:mutation             all of them
 *     npm run check:mutation -- fence    those whose name or file contains "fence"
 *
 * @typedef {import('./mutants.mjs').Mutant} Mutant
 * @typedef {{ title: string, status: string, file: string }} TestOutcome
 * @typedef {{ tests: TestOutcome[], broken: string[] }} Run `broken`: spec files that could not run at all
 */

const ROOT = resolve(import.meta.dirname, '../..');
/** A mutant may make a test hang: these bound the hanging, nothing is measured by them. */
const TEST_TIMEOUT_MS = 15_000;
const RUN_TIMEOUT_MS = 120_000;
const BASELINE_TIMEOUT_MS = 300_000;

const wanted = process.argv[2];
const chosen = wanted
  ? mutants.filter(({ name, file }) => `${name} ${file}`.toLowerCase().includes(wanted.toLowerCase()))
  : mutants;
if (chosen.length === 0) fail([`No mutant's name or file contains ${JSON.stringify(wanted)}.`]);

const misplaced = chosen.flatMap(({ name, file, find, specs }) => {
  const missing = [file, ...specs].filter((path) => !existsSync(join(ROOT, path)));
  if (missing.length > 0) return [`${name}: there is no ${missing.join(', no ')}`];
  const count = readFileSync(join(ROOT, file), 'utf8').split(find).length - 1;
  return count === 1 ? [] : [`${name}: its text stands ${count} times in ${file}, not once: ${find}`];
});
if (misplaced.length > 0) fail(misplaced);

// without this, a test that fails anyway, or a filter that matches nothing, would look like a verdict
const baseline = await runJest(
  [...new Set(chosen.flatMap(({ specs }) => specs))],
  chosen.map(({ tests }) => `(?:${tests})`).join('|'),
);
const unfit = [
  ...baseline.broken.map((file) => `${file} cannot be run`),
  ...baseline.tests
    .filter(({ status }) => status === 'failed')
    .map(({ title }) => `fails without a mutant: ${title}`),
  ...chosen
    .filter(
      ({ specs, tests }) =>
        !baseline.tests.some(
          ({ file, title, status }) =>
            status === 'passed' &&
            specs.some((spec) => file === join(ROOT, spec)) &&
            new RegExp(tests, 'i').test(title),
        ),
    )
    .map(({ name, tests }) => `${name}: no test that passes matches /${tests}/`),
];
if (unfit.length > 0) fail(unfit);

/** @type {string[]} */
const problems = [];
const queue = [...chosen];
await Promise.all(Array.from({ length: Math.min(availableParallelism(), chosen.length) }, work));
if (problems.length > 0) fail(problems);
process.stdout.write(`${chosen.length} mutants, all noticed\n`);

async function work() {
  for (let mutant = queue.shift(); mutant; mutant = queue.shift()) {
    const started = performance.now();
    const verdict = await judge(mutant);
    const seconds = ((performance.now() - started) / 1_000).toFixed(1);
    process.stdout.write(
      `${verdict.noticed ? 'noticed ' : 'SURVIVED'}  ${seconds.padStart(5)} s  ${mutant.name}\n`,
    );
    process.stdout.write(`                    ${verdict.by}\n`);
    if (!verdict.noticed) problems.push(`${mutant.name} (${mutant.file}): ${verdict.by}`);
  }
}

/**
 * @param {Mutant} mutant
 * @returns {Promise<{ noticed: boolean, by: string }>}
 */
async function judge(mutant) {
  const { tests, broken } = await runJest(mutant.specs, mutant.tests, mutant);
  // code that no longer loads proves nothing about the tests
  if (broken.length > 0) return { noticed: false, by: `${broken.join(', ')} cannot be run with it` };
  const failed = tests.filter(({ status }) => status === 'failed');
  return failed[0]
    ? { noticed: true, by: failed[0].title }
    : { noticed: false, by: `every test that matches /${mutant.tests}/ still passes` };
}

/**
 * @param {readonly string[]} specs
 * @param {string} tests
 * @param {Mutant} [mutant]
 * @returns {Promise<Run>}
 */
async function runJest(specs, tests, mutant) {
  const folder = mkdtempSync(join(tmpdir(), 'mutation-'));
  const output = join(folder, 'results.json');
  const { MUTANT: _inherited, ...env } = process.env;
  try {
    const child = spawn(
      process.execPath,
      [
        join(ROOT, 'node_modules/jest/bin/jest.js'),
        '--config=test/mutation/jest.config.cjs',
        '--runInBand',
        '--forceExit',
        `--testTimeout=${TEST_TIMEOUT_MS}`,
        '--json',
        `--outputFile=${output}`,
        `--testNamePattern=${tests}`,
        '--runTestsByPath',
        ...specs,
      ],
      {
        cwd: ROOT,
        // a group of its own, so that a run that hangs goes together with the servers that it started
        detached: true,
        stdio: 'ignore',
        env: mutant
          ? {
              ...env,
              MUTANT: JSON.stringify({ file: mutant.file, find: mutant.find, replace: mutant.replace }),
            }
          : env,
      },
    );
    const hanging = setTimeout(
      () => child.pid && process.kill(-child.pid, 'SIGKILL'),
      mutant ? RUN_TIMEOUT_MS : BASELINE_TIMEOUT_MS,
    );
    await new Promise((done) => child.once('exit', done));
    clearTimeout(hanging);
    return readResults(output, specs);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {string} output
 * @param {readonly string[]} specs
 * @returns {Run}
 */
function readResults(output, specs) {
  /** @type {{ testResults: Array<{ name: string, status: string, assertionResults: Array<{ fullName: string, status: string }> }> }} */
  let results;
  try {
    results = JSON.parse(readFileSync(output, 'utf8'));
  } catch {
    return { tests: [], broken: [...specs] };
  }
  return {
    tests: results.testResults.flatMap(({ name, assertionResults }) =>
      assertionResults.map(({ fullName, status }) => ({ file: name, title: fullName, status })),
    ),
    broken: results.testResults
      .filter(({ status, assertionResults }) => status === 'failed' && assertionResults.length === 0)
      .map(({ name }) => name),
  };
}

/**
 * @param {readonly string[]} reasons
 * @returns {never}
 */
function fail(reasons) {
  process.stderr.write(
    `\n${reasons.map((reason) => `- ${reason}`).join('\n')}\nThe mutation check failed.\n`,
  );
  process.exit(1);
}
