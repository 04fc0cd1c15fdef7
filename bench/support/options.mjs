import { parseArgs } from 'node:util';

/**
 * Reads `--name value` for each of the given names.
 *
 * @template {Record<string, number | string>} Defaults
 * @param {Defaults} defaults by name; a number is read as a number above 0
 * @param {Partial<Record<keyof Defaults, readonly string[]>>} [choices] of those that are text
 * @returns {Defaults}
 */
export function readOptions(defaults, choices = {}) {
  const { values } = parseArgs({
    options: Object.fromEntries(
      Object.entries(defaults).map(([name, value]) => [
        name,
        { type: /** @type {const} */ ('string'), default: `${value}` },
      ]),
    ),
  });
  const read = Object.entries(defaults).map(([name, value]) => {
    const text = String(values[name]);
    if (typeof value === 'string') {
      const allowed = choices[name];
      if (allowed && !allowed.includes(text))
        throw new Error(`--${name} is one of ${allowed.join(', ')}, not ${text}.`);
      return [name, text];
    }
    const number = Number(text);
    const whole = Number.isInteger(value) && (name === 'rounds' || name.endsWith('-ms'));
    if (!(number > 0) || (whole && !Number.isInteger(number))) {
      throw new Error(`--${name} is a ${whole ? 'whole ' : ''}number above 0, not ${JSON.stringify(text)}.`);
    }
    return [name, number];
  });
  return /** @type {Defaults} */ (Object.fromEntries(read));
}
