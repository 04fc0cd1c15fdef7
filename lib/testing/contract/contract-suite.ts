import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend } from '../../backend/backend.js';

type Body = () => void | Promise<void>;

/** The four functions of a test runner that the suite needs: Jest's, Vitest's, those of `node:test`. */
export interface ContractTestApi {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: Body): unknown;
  beforeAll(body: Body): unknown;
  afterAll(body: Body): unknown;
}

/** What the suite gets to test. */
export interface ContractSubject {
  /** Not started yet: the suite starts and closes it. */
  backend: Backend;
  /** Lets time pass for a store whose clock the test holds. Default: waits. */
  advance?(ms: number): void | Promise<void>;
  /** Called after the backend was closed. */
  dispose?(): Promise<void>;
}

/** The started subject; only to be asked for inside a test. */
export type Subject = () => ContractSubject;

/** Bounds each operation; it is never the thing measured. */
export const TIMEOUT_MS = 5_000;
/** A lease that no test outlives, and one that ends while a test waits. */
export const LONG_MS = 60_000;
export const SHORT_MS = 60;

/** The runner's own globals. */
export function globalTestApi(): ContractTestApi {
  const found = globalThis as Record<string, unknown>;
  const pick = (...names: string[]): unknown =>
    names.map((name) => found[name]).find((f) => typeof f === 'function');
  const api = {
    describe: pick('describe', 'suite'),
    it: pick('it', 'test'),
    beforeAll: pick('beforeAll', 'before'),
    afterAll: pick('afterAll', 'after'),
  };
  const missing = Object.entries(api)
    .filter(([, value]) => value === undefined)
    .map(([name]) => name);
  if (missing.length > 0) {
    throw new TypeError(
      `runBackendContract() needs a test runner's describe, it, beforeAll and afterAll as globals or as its third ` +
        `argument; missing: ${missing.join(', ')}.`,
    );
  }
  return api as ContractTestApi;
}

/** A key that no other test uses. */
export const newKey = (name = 'key'): string => `contract:${name}:${randomUUID()}`;

/** Lets time pass until the condition holds. */
export async function until(
  subject: ContractSubject,
  what: string,
  holds: () => Promise<boolean>,
): Promise<void> {
  const stepMs = SHORT_MS / 3;
  for (let waitedMs = 0; waitedMs <= 10_000; waitedMs += stepMs) {
    if (await holds()) return;
    await (subject.advance ? subject.advance(stepMs) : sleep(stepMs));
  }
  throw new Error(`waited in vain: ${what}`);
}
