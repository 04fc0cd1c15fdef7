import { parseArgs } from 'node:util';

/**
 * @typedef {object} BenchOptions
 * @property {number} rounds
 * @property {number} sliceMs how long each contender runs in each round
 */

/** @returns {BenchOptions} */
export function readOptions() {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '21' },
      'slice-ms': { type: 'string', default: '200' },
    },
  });
  return {
    rounds: atLeast('rounds', values.rounds, 1),
    sliceMs: atLeast('slice-ms', values['slice-ms'], 10),
  };
}

/**
 * @param {string} name
 * @param {string} text
 * @param {number} least
 */
function atLeast(name, text, least) {
  const value = Number(text);
  if (!Number.isInteger(value) || value < least) {
    throw new Error(`--${name} is a whole number of at least ${least}, not ${JSON.stringify(text)}.`);
  }
  return value;
}
