import { createHash, hash, type Hash } from 'node:crypto';
import { IdempotencyKeyError } from '../errors.js';
import { sortInSlices } from './sliced-sort.js';

/** Nobody's request nests deeper, and a deeper one would exhaust the stack further on. */
const DEEPEST = 500;
/** The event loop is given back after this much work, in milliseconds. */
const SLICE_MS = 8;
/** The clock is read after so much work, counted in characters; a smaller value is always done at once. */
const WORK_PER_LOOK = 65_536;
/** What a step costs beside the characters that it writes. */
const STEP_WORK = 100;
const TEXT_PER_STEP = 32_768;
const BYTES_PER_STEP = 262_144;
/** Written to the hash at once: every call of it costs as much as a kilobyte. */
const FLUSH_AT = 16_384;
/** Sorting so many names takes less than a slice. */
const SORTED_AT_ONCE = 2_000;

/**
 * SHA-256 of a value's canonical JSON: object keys sorted, arrays in order, so that `{a,b}` and `{b,a}` are one
 * request. What JSON has no form for (undefined, bytes, bigint) gets one of its own: it must never look like
 * something else.
 *
 * A small value is hashed at once; a large one in slices of a few milliseconds, other work between them, as a
 * promise. (One single object of more than some ten thousand fields is still enumerated in one step.)
 */
export function canonicalHash(value: unknown): string | Promise<string> {
  const work = new CanonicalHash(value);
  return work.goOn() ? work.digest() : inSlices(work);
}

async function inSlices(work: CanonicalHash): Promise<string> {
  do {
    await new Promise((resolve) => setImmediate(resolve));
  } while (!work.goOn());
  return work.digest();
}

/** One thing that is being written; the innermost stands last on the stack. */
type Frame =
  | { kind: 'array'; items: readonly unknown[]; at: number }
  | { kind: 'object'; fields: Record<string, unknown>; names: readonly string[]; at: number; any: boolean }
  | { kind: 'sort'; fields: Record<string, unknown>; sorting: Iterator<undefined, string[]> }
  | { kind: 'text'; text: string; at: number }
  | { kind: 'bytes'; bytes: Buffer; hash: Hash; at: number };

/** Writes a value step by step, so that the work can be left off anywhere. */
class CanonicalHash {
  /** Made for what is written at more than once. */
  #hash: Hash | undefined;
  readonly #stack: Frame[] = [];
  #pending = '';
  /** Since the clock was read. */
  #work = 0;

  constructor(value: unknown) {
    this.#begin(value);
  }

  /** Works for one slice. True: it is done. */
  goOn(): boolean {
    const endsAt = performance.now() + SLICE_MS;
    while (this.#stack.length > 0) {
      this.#step(this.#stack.at(-1)!);
      this.#work += STEP_WORK;
      if (this.#work < WORK_PER_LOOK) continue;
      this.#work = 0;
      if (performance.now() >= endsAt) return false;
    }
    return true;
  }

  digest(): string {
    return this.#hash ? this.#hash.update(this.#pending).digest('hex') : hash('sha256', this.#pending);
  }

  #write(text: string): void {
    this.#pending += text;
    this.#work += text.length;
    if (this.#pending.length < FLUSH_AT) return;
    this.#hash ??= createHash('sha256');
    this.#hash.update(this.#pending);
    this.#pending = '';
  }

  #step(frame: Frame): void {
    switch (frame.kind) {
      case 'array': {
        if (frame.at === frame.items.length) return this.#end(']');
        if (frame.at > 0) this.#write(',');
        return this.#begin(frame.items[frame.at++]);
      }
      case 'object':
        return this.#field(frame);
      case 'sort': {
        const sorted = frame.sorting.next();
        this.#work = WORK_PER_LOOK;
        if (!sorted.done) return;
        const { fields } = frame;
        this.#stack[this.#stack.length - 1] = {
          kind: 'object',
          fields,
          names: sorted.value,
          at: 0,
          any: false,
        };
        return;
      }
      case 'text': {
        if (frame.at >= frame.text.length) return this.#end('"');
        let to = frame.at + TEXT_PER_STEP;
        // a pair of surrogates is one character: cut in two it would be written as two
        if ((frame.text.charCodeAt(to - 1) & 0xfc00) === 0xd800) to++;
        this.#write(JSON.stringify(frame.text.slice(frame.at, to)).slice(1, -1));
        frame.at = to;
        return;
      }
      case 'bytes': {
        if (frame.at >= frame.bytes.length) return this.#end(`${frame.hash.digest('hex')})`);
        this.#work = WORK_PER_LOOK;
        frame.hash.update(frame.bytes.subarray(frame.at, (frame.at += BYTES_PER_STEP)));
      }
    }
  }

  #field(frame: Extract<Frame, { kind: 'object' }>): void {
    while (frame.at < frame.names.length) {
      const name = frame.names[frame.at++]!;
      const value = frame.fields[name];
      if (value === undefined) continue;
      this.#write(`${frame.any ? ',' : ''}${JSON.stringify(name)}:`);
      frame.any = true;
      return this.#begin(value);
    }
    this.#end('}');
  }

  #end(text: string): void {
    this.#stack.pop();
    this.#write(text);
  }

  #enter(frame: Frame, text: string): void {
    if (this.#stack.length >= DEEPEST) {
      throw new IdempotencyKeyError(
        `The request is nested deeper than ${DEEPEST} levels: it cannot be compared.`,
      );
    }
    this.#write(text);
    this.#stack.push(frame);
  }

  #begin(given: unknown): void {
    const value = plainOf(given);
    switch (typeof value) {
      case 'undefined':
      case 'function':
      case 'symbol':
        return this.#write('undefined');
      case 'bigint':
        return this.#write(`${value}n`);
      case 'string':
        if (value.length <= TEXT_PER_STEP) return this.#write(JSON.stringify(value));
        return this.#enter({ kind: 'text', text: value, at: 0 }, '"');
      case 'object':
        return value === null ? this.#write('null') : this.#beginObject(value);
      default:
        return this.#write(JSON.stringify(value));
    }
  }

  #beginObject(value: object): void {
    if (ArrayBuffer.isView(value)) {
      const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
      return this.#enter({ kind: 'bytes', bytes, hash: createHash('sha256'), at: 0 }, 'bytes(');
    }
    if (Array.isArray(value)) return this.#enter({ kind: 'array', items: value, at: 0 }, '[');
    if (value instanceof Map || value instanceof Set) {
      return this.#enter({ kind: 'array', items: [...value], at: 0 }, value instanceof Map ? 'map[' : 'set[');
    }
    const fields = value as Record<string, unknown>;
    const names = Object.keys(fields);
    if (names.length <= SORTED_AT_ONCE) {
      return this.#enter({ kind: 'object', fields, names: names.sort(), at: 0, any: false }, '{');
    }
    this.#enter({ kind: 'sort', fields, sorting: sortInSlices(names, SORTED_AT_ONCE) }, '{');
  }
}

/** What JSON would make of an object that says so itself (a Date, a Decimal); bytes stay bytes. */
function plainOf(given: unknown): unknown {
  let value = given;
  for (let depth = 0; depth < DEEPEST; depth++) {
    if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value;
    const { toJSON } = value as { toJSON?: unknown };
    if (typeof toJSON !== 'function') return value;
    value = (toJSON as () => unknown).call(value);
  }
  throw new IdempotencyKeyError('The request holds a toJSON() that never ends: it cannot be compared.');
}
