import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const SAMPLE = resolve(__dirname, '../../sample-app');
const README = readFileSync(join(SAMPLE, 'README.md'), 'utf8');

/** The rows of the table under a heading, each as its cells. */
function rowsUnder(heading: string): string[][] {
  const section = README.split(`## ${heading}\n`)[1]!.split('\n## ')[0]!;
  const lines = section.split('\n').filter((line) => line.startsWith('|'));
  return lines.slice(2).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const code = (cell: string): string => /^`([^`]+)`$/.exec(cell)?.[1] ?? '';

describe('the sample’s map from problem to line', () => {
  const rows = rowsUnder('From the problem to the line');

  it.each(rows as [string, string, string, string][])('%s: %s has %s', (problem, file, symbol, mistake) => {
    const path = join(SAMPLE, code(file));
    expect({ file, exists: code(file) !== '' && existsSync(path) }).toEqual({ file, exists: true });
    const text = readFileSync(path, 'utf8');
    const [owner, member] = code(symbol).split('.');
    expect(text).toMatch(
      new RegExp(`^export (abstract )?(class|const|function|async function) ${owner}\\b`, 'm'),
    );
    if (member) expect(text).toMatch(new RegExp(`^  (static |async )*${member}\\(`, 'm'));
    expect(problem).not.toBe('');
    expect(mistake.length).toBeGreaterThan(20);
  });

  it.each([
    'delete (or write) without compare',
    'in two steps',
    'lock inside the transaction',
    'same token for all',
    'per whole shop instead of per merchant',
    'guessed instead of twice the P99',
    'no watchdog on a long job',
    'a success answered to a repeat that is still running',
  ])('names the mistake: %s', (mistake) => {
    expect(rows.filter((cells) => cells[3]?.includes(mistake))).not.toEqual([]);
  });
});
