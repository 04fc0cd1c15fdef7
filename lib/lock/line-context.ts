import type { Backend } from '../backend/backend.js';
import type { LockKey } from './lock-key.js';
import type { Grant, Lease } from './lease.js';
import type { LeaseReleaser } from './lease-releaser.js';
import type { LockEvents } from './lock-events.js';
import type { TokenSource } from './token-source.js';
import type { Clock } from './validity.js';

/** What the lines of all keys share. */
export interface LineContext {
  backend: Backend;
  tokens: TokenSource;
  releaser: LeaseReleaser;
  events: LockEvents;
  clock: Clock;
  lease(grant: Grant): Lease;
  /** Takes a granted lease into care (the watchdog), before its waiter learns of it. */
  keep(lease: Lease): void;
  /** Asks whether a held lease is still ours, and prolongs it. */
  check(lease: Lease): void;
  background(work: Promise<unknown>): void;
  /** The line is empty and holds nothing: it is forgotten. */
  emptied(line: { readonly key: LockKey }): void;
}
