import { FENCE_BLOCK } from '../backend/backend.js';
import { LockBusyError, LockClosedError, StoreUnavailableError } from '../errors.js';
import type { Budget } from './budget.js';
import { Deadlines } from './deadlines.js';
import { KeyLine } from './key-line.js';
import { leaseMsOf, type Lease, type LeaseTerms } from './lease.js';
import type { LineContext } from './line-context.js';
import type { LockKey } from './lock-key.js';
import { asFailure } from './store-failure.js';
import { instant } from './validity.js';
import { Waiter, type WaitingLine } from './waiter.js';

const COMMAND_TIMEOUT_MS = 1_000;

/** A single try stands in no line: nobody else asks under its token, and its command's time-out bounds it. */
const NO_LINE: WaitingLine = {
  left: () => undefined,
  timeoutError: ({ key }) => new LockBusyError([key.name]),
};

/** The lines of this process, one for each key in use, and the inbox that tells them of grants. */
export class LockLines {
  readonly #lines = new Map<string, KeyLine>();
  readonly #context: LineContext;
  readonly #deadlines: Deadlines;
  #closed = false;
  /** Single tries under way. */
  #tries = 0;
  #onIdle: (() => void) | undefined;

  constructor(context: Omit<LineContext, 'emptied'>) {
    this.#context = { ...context, emptied: (line) => this.#emptied(line) };
    this.#deadlines = new Deadlines(context.clock);
    const { inbox } = context.backend.locks;
    inbox.onGrant((grant) => {
      const receivedAt = instant(context.clock);
      if (this.#lines.get(grant.key)?.granted(grant, receivedAt)) return;
      // nobody waits under this token any more: pass it on. A token of another instance is not ours to touch
      if (!context.tokens.owns(grant.token)) return;
      const { key, token } = grant;
      context.background(context.backend.locks.abandon({ key, token, leaseMs: 0, ttlMs: 0 }));
    });
    inbox.onForceRelease(({ key, token }) => this.#lines.get(key)?.forceReleased(token));
    inbox.onListening(() => {
      for (const line of this.#lines.values()) line.inboxReopened();
    });
  }

  /**
   * Waits for a lease inside the budget; a budget of 0 is one try.
   *
   * @param use makes of the lease what the caller wants, in the moment of the grant.
   */
  acquire<T>(key: LockKey, terms: LeaseTerms, budget: Budget, use: (lease: Lease) => T): Promise<T> {
    // one promise for a lock: in an application that traces its calls, promises are most of what a hand-off costs
    return new Promise((resolve, reject) => {
      const granted = (lease: Lease): void => resolve(use(lease));
      if (this.#closed) return reject(new LockClosedError([key.name]));
      if (budget.timeoutMs === 0) {
        return this.#tryOnce(new Waiter(key, terms, budget, NO_LINE, this.#deadlines, granted, reject));
      }
      const line = this.#lineOf(key);
      line.enter(new Waiter(key, terms, budget, line, this.#deadlines, granted, reject));
    });
  }

  /** A lease of one of several keys, which was not got by waiting here. */
  adopt(lease: Lease): void {
    this.#lineOf(lease.key).adopt(lease);
  }

  /** A lease ended otherwise than by its hold: those who wait behind it ask. */
  over(lease: Lease): void {
    this.#lines.get(lease.key.full)?.over(lease);
  }

  /** Whether somebody of this process waits for the key. */
  isAwaited(key: LockKey): boolean {
    return this.#lines.get(key.full)?.isAwaited ?? false;
  }

  /** Gives a lease whose hold ended to the next waiter of this process, without asking the store. */
  handOff(lease: Lease): boolean {
    return this.#lines.get(lease.key.full)?.handOff(lease) ?? false;
  }

  free(lease: Lease): ReturnType<KeyLine['free']> {
    return this.#lineOf(lease.key).free(lease);
  }

  giveBack(lease: Lease): void {
    this.#lineOf(lease.key).giveBack(lease);
  }

  /** Refuses everybody who waits, and whoever comes. */
  close(): void {
    this.#closed = true;
    for (const line of [...this.#lines.values()]) {
      for (const waiter of line.waiters()) waiter.fail(new LockClosedError([waiter.key.name]));
    }
  }

  /** Resolves when no question is open any more. */
  get idle(): Promise<void> {
    if (this.#tries === 0 && this.#lines.size === 0) return Promise.resolve();
    return new Promise((resolve) => (this.#onIdle = resolve));
  }

  #lineOf(key: LockKey): KeyLine {
    let line = this.#lines.get(key.full);
    if (!line) {
      line = new KeyLine(key, this.#context);
      this.#lines.set(key.full, line);
    }
    return line;
  }

  #emptied(line: { readonly key: LockKey }): void {
    if (this.#lines.get(line.key.full) === line) this.#lines.delete(line.key.full);
    this.#tellIfIdle();
  }

  #tellIfIdle(): void {
    if (this.#tries === 0 && this.#lines.size === 0) this.#onIdle?.();
  }

  #tryOnce(waiter: Waiter): void {
    const { key } = waiter;
    if (this.#lines.get(key.full)?.isContended) {
      // others wait already: a single try must not overtake them
      this.#context.events.emit('contended', () => ({ key: key.name }));
      return waiter.fail(new LockBusyError([key.name]));
    }
    this.#tries++;
    void this.#tryFor(waiter).finally(() => {
      this.#tries--;
      this.#tellIfIdle();
    });
  }

  async #tryFor(waiter: Waiter): Promise<void> {
    const { backend, clock, tokens, events, background } = this.#context;
    const { key, terms } = waiter;
    const leaseMs = leaseMsOf(terms);
    const request = { key: key.full, token: tokens.next(), leaseMs, ttlMs: terms.ttlMs, queue: false };
    const sentAt = instant(clock);
    try {
      const answer = await backend.locks.acquire(request, COMMAND_TIMEOUT_MS);
      if (answer.status === 'busy') {
        events.emit('contended', () => ({ key: key.name }));
        return waiter.fail(new LockBusyError([key.name]));
      }
      const { token } = request;
      const { fencingToken } = answer;
      const grant = { key, token, fencingToken, terms, sentAt, leaseMs, block: FENCE_BLOCK, doubtful: false };
      const lease = this.#context.lease(grant);
      if (!waiter.settled && lease.validityLeftMs > 0) {
        this.#context.keep(lease);
        this.adopt(lease);
        return waiter.grant(lease);
      }
      this.giveBack(lease);
      waiter.fail(
        new StoreUnavailableError('The store answered after the lease had run out.', { keys: key.name }),
      );
    } catch (error) {
      const failure = asFailure(error, key);
      events.emit('unavailable', () => ({ key: key.name, error: failure }));
      if (failure.outcome === 'unknown') background(backend.locks.abandon(request));
      waiter.fail(failure);
    }
  }
}
