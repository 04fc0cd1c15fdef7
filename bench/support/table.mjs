import { median, medianInterval } from './statistics.mjs';

/** @param {string} text */
export function say(text) {
  process.stdout.write(`${text}\n`);
}

/** @param {string} name @param {string[]} cells */
export function row(name, ...cells) {
  return name.padEnd(33) + cells.map((cell) => `  ${cell.padStart(24)}`).join('');
}

/**
 * The median over the rounds and, behind it, its 95 % interval.
 *
 * @param {readonly number[]} samples
 * @param {number} digits
 */
export function withInterval(samples, digits) {
  if (samples.length === 0) return '-';
  const [low, high] = medianInterval(samples);
  return `${median(samples).toFixed(digits)} (${low.toFixed(digits)}-${high.toFixed(digits)})`;
}

/** A figure of the last line. @param {readonly number[]} samples @param {number} digits */
export function figure(samples, digits = 3) {
  return Number(median(samples).toFixed(digits));
}
