import ms, { type StringValue } from 'ms';
import { LockConfigError, type ConfigFault } from './errors.js';

/** A length of time: a number of milliseconds, or a string that `ms` understands (`'30s'`, `'15m'`, `'24h'`). */
export type Duration = number | StringValue;

/** A {@link Duration} of the module's options, where a plain string (from the environment, say) is fine too. */
export type LooseDuration = number | string;

/** What a duration may be. */
export interface DurationBounds {
  /** The least allowed, in milliseconds. @default 0 */
  min?: number;
  /** Whether `Infinity` is allowed. @default false */
  infinite?: boolean;
}

/**
 * Reads a duration as whole milliseconds.
 *
 * @returns the milliseconds, or the fault in words: never `NaN`.
 */
export function readDuration(value: unknown, bounds: DurationBounds = {}): number | { fault: string } {
  const { min = 0, infinite = false } = bounds;
  const parsed = typeof value === 'number' ? value : typeof value === 'string' ? parse(value) : NaN;
  if (Number.isNaN(parsed)) {
    return {
      fault: `${describe(value)} is no duration: give milliseconds as a number, or a string such as '30s', '15m', '24h'`,
    };
  }
  if (parsed === Infinity && infinite) return parsed;
  if (Math.abs(parsed) > Number.MAX_SAFE_INTEGER) return { fault: `${describe(value)} is too long` };
  if (parsed < min) {
    return { fault: `${describe(value)} is too short: at least ${min} ms` };
  }
  return Math.ceil(parsed);
}

/** As {@link readDuration}, but a fault is thrown as a `LockConfigError` that names the path. */
export function parseDuration(value: unknown, path: string, bounds?: DurationBounds): number {
  const read = readDuration(value, bounds);
  if (typeof read === 'number') return read;
  throw new LockConfigError({ path, message: read.fault });
}

/** As {@link readDuration}, but a fault is added to the list, so that all of them can be told at once. */
export function collectDuration(
  value: unknown,
  path: string,
  faults: ConfigFault[],
  bounds?: DurationBounds,
): number {
  const read = readDuration(value, bounds);
  if (typeof read === 'number') return read;
  faults.push({ path, message: read.fault });
  return 0;
}

function parse(text: string): number {
  if (text.trim() === '') return NaN;
  try {
    return ms(text as StringValue) ?? NaN;
  } catch {
    // ms refuses strings of more than 100 characters by throwing
    return NaN;
  }
}

function describe(value: unknown): string {
  if (typeof value === 'string') return `'${value.length > 40 ? `${value.slice(0, 40)}…` : value}'`;
  return typeof value === 'object' ? (value === null ? 'null' : 'an object') : String(value);
}
