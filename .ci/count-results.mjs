import { readFileSync } from 'node:fs';

/**
 * Adds up what Jest wrote and prints it as the last line. A file of results that is not there, a suite that
 * could not be run and a test that was left out all count as failed: what did not run was not tested.
 */

let passed = 0;
let failed = 0;
for (const file of process.argv.slice(2)) {
  /** @type {{ numPassedTests: number, numFailedTests: number, numPendingTests: number, numTodoTests: number, numRuntimeErrorTestSuites: number, success: boolean } | undefined} */
  let results;
  try {
    results = JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    failed += 1;
    continue;
  }
  if (!results) continue;
  passed += results.numPassedTests;
  const lacking =
    results.numFailedTests +
    results.numPendingTests +
    results.numTodoTests +
    results.numRuntimeErrorTestSuites;
  failed += lacking === 0 && !results.success ? 1 : lacking;
}
process.stdout.write(`${passed} passed, ${failed} failed\n`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
