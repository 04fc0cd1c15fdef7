/**
 * Glob patterns with the meaning that Redis gives them in SCAN and KEYS: `*`, `?`, `[abc]`, `[^a]`, `[a-z]`
 * and `\` for the next character as it is. Redis compares bytes, so `?` is one byte of UTF-8.
 */

interface ByteSet {
  not: boolean;
  has(byte: number): boolean;
}

type Part = 'any' | 'one' | number | ByteSet;

const STAR = 0x2a;
const QUESTION = 0x3f;
const OPEN = 0x5b;
const CLOSE = 0x5d;
const CARET = 0x5e;
const DASH = 0x2d;
const BACKSLASH = 0x5c;

/** Makes a test for a pattern. */
export function compileGlob(pattern: string): (text: string) => boolean {
  const parts = parse(Buffer.from(pattern));
  return (text) => matches(parts, Buffer.from(text));
}

function parse(pattern: Buffer): Part[] {
  const parts: Part[] = [];
  let at = 0;
  while (at < pattern.length) {
    const byte = pattern[at]!;
    if (byte === STAR) {
      if (parts.at(-1) !== 'any') parts.push('any');
    } else if (byte === QUESTION) {
      parts.push('one');
    } else if (byte === OPEN) {
      const [set, last] = parseSet(pattern, at + 1);
      parts.push(set);
      at = last;
    } else if (byte === BACKSLASH && at + 1 < pattern.length) {
      parts.push(pattern[++at]!);
    } else {
      parts.push(byte);
    }
    at++;
  }
  return parts;
}

/** Reads a set from behind its `[`; a set that nobody closes ends with the pattern, as it does in Redis. */
function parseSet(pattern: Buffer, from: number): [set: ByteSet, last: number] {
  const not = pattern[from] === CARET;
  const ranges: Array<[low: number, high: number]> = [];
  let at = not ? from + 1 : from;
  for (; at < pattern.length && pattern[at] !== CLOSE; at++) {
    if (pattern[at] === BACKSLASH && at + 1 < pattern.length) {
      at++;
      ranges.push([pattern[at]!, pattern[at]!]);
    } else if (pattern[at + 1] === DASH && at + 2 < pattern.length) {
      const [one, other] = [pattern[at]!, pattern[at + 2]!];
      ranges.push([Math.min(one, other), Math.max(one, other)]);
      at += 2;
    } else {
      ranges.push([pattern[at]!, pattern[at]!]);
    }
  }
  const has = (byte: number): boolean => ranges.some(([low, high]) => byte >= low && byte <= high);
  return [{ not, has }, at];
}

/** Goes back to the last `*` only: an earlier one can gain nothing, so no pattern takes exponential time. */
function matches(parts: readonly Part[], text: Buffer): boolean {
  let part = 0;
  let at = 0;
  let starPart = -1;
  let starAt = 0;
  while (at < text.length) {
    const expected = parts[part];
    if (expected === 'any') {
      starPart = part++;
      starAt = at;
    } else if (expected !== undefined && fits(expected, text[at]!)) {
      part++;
      at++;
    } else if (starPart >= 0) {
      part = starPart + 1;
      at = ++starAt;
    } else {
      return false;
    }
  }
  while (parts[part] === 'any') part++;
  return part === parts.length;
}

function fits(part: Exclude<Part, 'any'>, byte: number): boolean {
  if (part === 'one') return true;
  return typeof part === 'number' ? part === byte : part.has(byte) !== part.not;
}
