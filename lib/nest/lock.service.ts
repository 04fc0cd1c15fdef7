import { Injectable } from '@nestjs/common';
import type { Observable } from 'rxjs';
import type { LockManager } from '../lock/lock-manager.js';
import type { Lock, LockEvent, LockInfo, LockOptions } from '../lock/lock.js';

/**
 * Locks that exclude each other across every process of an application, and other languages that lock by
 * `SET key <uuid> NX PX`. The unnamed instance is injectable by this class, a named one by
 * `@InjectLockService(name)`.
 *
 * A lock reduces conflicts; it is never the only reason that data is right: use `lock.fencingToken` or a
 * database constraint as the floor.
 */
@Injectable()
export class LockService {
  constructor(private readonly manager: LockManager) {}

  /**
   * Acquires a key, or several of them all or nothing, and waits for it up to `waitTimeout`. Release it, or
   * write `await using lock = await locks.acquire(…)`; {@link withLock} does so by itself.
   *
   * @throws LockTimeoutError when it was not granted within `waitTimeout`.
   * @throws LockBusyError when it is held and `waitTimeout` is 0.
   * @throws LockAbortedError when `signal` cancelled the waiting.
   * @throws LockClosedError when the application is shutting down.
   * @throws LockKeyError when the key is no key; LockConfigError when the options are wrong.
   * @throws StoreUnavailableError when the store cannot be reached or refuses.
   */
  acquire(key: string | readonly string[], options?: LockOptions): Promise<Lock> {
    return this.manager.acquire(key, options);
  }

  /** Exactly one try: null when the key is held by another. Else as {@link acquire}. */
  tryAcquire(key: string | readonly string[], options?: LockOptions): Promise<Lock | null> {
    return this.manager.tryAcquire(key, options);
  }

  /**
   * Runs a task under a lock and gives the lock back. The task's result or error comes through; a failed
   * release never replaces it. Locks of the same key inside the task join it.
   *
   * @throws LockLostError when exclusion was lost while the task ran and `onLost` is `'throw'`: it carries the
   *   task's result, or its error as `cause`.
   * @throws what {@link acquire} throws.
   */
  withLock<T>(
    key: string | readonly string[],
    task: (lock: Lock) => T,
    options?: LockOptions,
  ): Promise<Awaited<T>> {
    return this.manager.withLock(key, task, options);
  }

  /** The held lock that this call chain runs under: of that key, or the innermost. */
  current(key?: string): Lock | undefined {
    return this.manager.current(key);
  }

  /** Who holds a key, by the store; null when nobody does. */
  inspect(key: string): Promise<LockInfo | null> {
    return this.manager.inspect(key);
  }

  /** The held locks, by SCAN (never KEYS). @param pattern a glob; default: all. */
  list(pattern?: string): AsyncIterable<LockInfo> {
    return this.manager.list(pattern);
  }

  /** For operators: frees a key whoever holds it. False when it was free. */
  forceRelease(key: string): Promise<boolean> {
    return this.manager.forceRelease(key);
  }

  /** What this process holds. */
  held(): readonly Lock[] {
    return this.manager.held();
  }

  /** What happens to locks, for metrics and logs. Contention is an event, not an error. */
  get events(): Observable<LockEvent> {
    return this.manager.events;
  }
}
