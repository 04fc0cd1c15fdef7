/**
 * Every error this package raises. They are told apart by their string `code` and a brand by
 * `Symbol.for`, never by `instanceof`: one process may hold two copies of the package (CommonJS and ES).
 */

const BRAND = Symbol.for('nestjs-redis-lock/error');

/** The stable, documented code of each error. */
export type RedisLockErrorCode =
  | 'LOCK_BUSY'
  | 'LOCK_TIMEOUT'
  | 'LOCK_LOST'
  | 'LOCK_ABORTED'
  | 'LOCK_CLOSED'
  | 'LOCK_KEY'
  | 'LOCK_CONFIG'
  | 'STORE_UNAVAILABLE'
  | 'IDEMPOTENCY_KEY'
  | 'IDEMPOTENCY_IN_PROGRESS'
  | 'IDEMPOTENCY_MISMATCH'
  | 'IDEMPOTENCY_UNREPLAYABLE'
  | 'QUOTA_EXCEEDED'
  | 'QUOTA_NOT_FOUND'
  | 'QUOTA_OPERATION'
  | 'QUOTA_AMOUNT';

/** What every error of this package may carry. */
export interface RedisLockErrorDetails {
  /** The key or keys the error is about. */
  keys?: string | readonly string[];
  /** What led to it. */
  cause?: unknown;
}

/** The base of every error of this package. Use {@link isRedisLockError} to recognise one. */
export abstract class RedisLockError extends Error {
  abstract readonly code: RedisLockErrorCode;
  /** The keys the error is about; empty when it is about none. */
  readonly keys: readonly string[];

  constructor(message: string, details: RedisLockErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined);
    this.name = new.target.name;
    this.keys =
      details.keys === undefined ? [] : typeof details.keys === 'string' ? [details.keys] : details.keys;
    Object.defineProperty(this, BRAND, { value: true });
  }

  /** The first of {@link keys}. */
  get key(): string | undefined {
    return this.keys[0];
  }
}

/**
 * Tells whether a value is an error of this package, of any copy of it in this process.
 *
 * @param code when given, only an error with this code counts.
 */
export function isRedisLockError(value: unknown, code?: RedisLockErrorCode): value is RedisLockError {
  return (
    typeof value === 'object' &&
    value !== null &&
    (value as Record<symbol, unknown>)[BRAND] === true &&
    (code === undefined || (value as RedisLockError).code === code)
  );
}

const list = (keys: readonly string[]): string => keys.map((key) => JSON.stringify(key)).join(', ');

/** The lock is held by another and `waitTimeout` was 0. HTTP 409. */
export class LockBusyError extends RedisLockError {
  readonly code: 'LOCK_BUSY' | 'LOCK_TIMEOUT' = 'LOCK_BUSY';

  constructor(keys: readonly string[], details: { message?: string; cause?: unknown } = {}) {
    const { message = `The lock ${list(keys)} is held by another.`, ...rest } = details;
    super(message, { ...rest, keys });
  }
}

/** The lock was not granted within `waitTimeout`. HTTP 409. */
export class LockTimeoutError extends LockBusyError {
  override readonly code = 'LOCK_TIMEOUT';
  /** How long the call waited, in milliseconds. */
  readonly waitedMs: number;

  constructor(keys: readonly string[], waitedMs: number) {
    super(keys, {
      message: `The lock ${list(keys)} was not granted within ${Math.round(waitedMs)} ms: it is held by another.`,
    });
    this.waitedMs = waitedMs;
  }
}

/**
 * Why exclusion ended before its hold did:
 * `expired` the validity ran out without a renewal; `taken` the store said that the lease is not ours any
 * more (failover, DEL, another holder); `maxHold` the hold lasted longer than it may; `released` it was released,
 * by its holder or by an operator; `shutdown` the application closed before the section ended.
 */
export type LockLostReason = 'expired' | 'taken' | 'maxHold' | 'released' | 'shutdown';

/** Exclusion was lost while the lock was held. Also the reason of `lock.signal`. HTTP 500. */
export class LockLostError extends RedisLockError {
  readonly code = 'LOCK_LOST';
  readonly reason: LockLostReason;
  /** The lease's token (a UUID). */
  readonly token: string;
  readonly fencingToken: number;
  /** How long it had been held, in milliseconds. */
  readonly heldMs: number;
  /** What the task returned, when it settled well although exclusion was lost; see {@link hasResult}. */
  readonly result?: unknown;
  /** Whether the task settled with a {@link result}. Its error, when it failed, is the `cause`. */
  readonly hasResult: boolean;

  constructor(
    keys: readonly string[],
    details: {
      reason: LockLostReason;
      token: string;
      fencingToken: number;
      heldMs: number;
      cause?: unknown;
      outcome?: { result: unknown };
    },
  ) {
    const { reason, token, fencingToken, heldMs, outcome, ...rest } = details;
    super(`The lock ${list(keys)} was lost after ${Math.round(heldMs)} ms: ${LOST_BECAUSE[reason]}.`, {
      ...('cause' in rest ? { cause: rest.cause } : {}),
      keys,
    });
    this.reason = reason;
    this.token = token;
    this.fencingToken = fencingToken;
    this.heldMs = heldMs;
    this.hasResult = outcome !== undefined;
    if (outcome) this.result = outcome.result;
  }
}

const LOST_BECAUSE: Record<LockLostReason, string> = {
  expired: 'its validity ran out before it could be renewed',
  taken: 'the store says that it is not ours any more',
  maxHold: 'it was held longer than maxHold allows',
  released: 'it was released',
  shutdown: 'the application shut down before the section ended',
};

/** The `signal` of the options cancelled the waiting; its reason is the `cause`. HTTP 503. */
export class LockAbortedError extends RedisLockError {
  readonly code = 'LOCK_ABORTED';

  constructor(keys: readonly string[], cause: unknown) {
    super(`Waiting for the lock ${list(keys)} was aborted.`, { keys, cause });
  }
}

/** The application is shutting down: no new lock is given. HTTP 503. */
export class LockClosedError extends RedisLockError {
  readonly code = 'LOCK_CLOSED';

  constructor(keys: readonly string[] = []) {
    super(
      `The application is shutting down: ${keys.length > 0 ? `the lock ${list(keys)} is` : 'new locks are'} refused.`,
      { keys },
    );
  }
}

/** The key cannot be built from this call, or is no key. HTTP 400. */
export class LockKeyError extends RedisLockError {
  readonly code = 'LOCK_KEY';
}

/** One fault of the options: where it is and what to do. */
export interface ConfigFault {
  /** The option's path, e.g. `lock.ttl`, or `OrdersService.pay`. */
  path: string;
  /** What is wrong and what to do. */
  message: string;
}

/** Wrong options or wrong use: at start-up or at decoration. Lists every fault that was found. */
export class LockConfigError extends RedisLockError {
  readonly code = 'LOCK_CONFIG';
  readonly faults: readonly ConfigFault[];

  constructor(faults: ConfigFault | readonly ConfigFault[], details: RedisLockErrorDetails = {}) {
    const all = 'path' in faults ? [faults] : faults;
    super(all.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join('\n'), details);
    this.faults = all;
  }
}

/**
 * Whether the store may have carried out the command: `notApplied` it surely did not; `unknown` its answer
 * never came.
 */
export type StoreOutcome = 'notApplied' | 'unknown';

/** The store cannot be reached, or refuses (OOM, NOAUTH, WRONGTYPE …). HTTP 503. */
export class StoreUnavailableError extends RedisLockError {
  readonly code = 'STORE_UNAVAILABLE';
  /** Whether the command may have been carried out all the same. */
  readonly outcome: StoreOutcome;
  /** Whether the same command may succeed a moment later (a closed connection may; a wrong type will not). */
  readonly retryable: boolean;

  constructor(
    message: string,
    details: RedisLockErrorDetails & { outcome?: StoreOutcome; retryable?: boolean } = {},
  ) {
    const { outcome = 'notApplied', retryable = false, ...rest } = details;
    super(message, rest);
    this.outcome = outcome;
    this.retryable = retryable;
  }
}

/** The idempotency key is missing though required, malformed, or cannot be built. HTTP 400. */
export class IdempotencyKeyError extends RedisLockError {
  readonly code = 'IDEMPOTENCY_KEY';
}

/** The first request with this key still runs. HTTP 409. */
export class IdempotencyInProgressError extends RedisLockError {
  readonly code = 'IDEMPOTENCY_IN_PROGRESS';
  /** What is left of the owner's lease, in milliseconds: it ends by then, or is renewed. */
  readonly leaseMs: number;

  constructor(recordKey: string, leaseMs: number) {
    super('A request with this idempotency key is still running: repeat it a little later.', {
      keys: recordKey,
    });
    this.leaseMs = leaseMs;
  }
}

/** The same idempotency key came with another request. HTTP 422. */
export class IdempotencyMismatchError extends RedisLockError {
  readonly code = 'IDEMPOTENCY_MISMATCH';

  constructor(recordKey: string) {
    super('This idempotency key was used with another request: a new request needs a new key.', {
      keys: recordKey,
    });
  }
}

/** The request was done before, but its reply could not be kept: it is not run again. HTTP 409. */
export class IdempotencyUnreplayableError extends RedisLockError {
  readonly code = 'IDEMPOTENCY_UNREPLAYABLE';

  constructor(recordKey: string, cause?: unknown) {
    super('This request was done before, but its reply could not be kept; it is not run again.', {
      keys: recordKey,
      ...(cause === undefined ? {} : { cause }),
    });
  }
}

/** Not enough is left in the quota. HTTP 409. */
export class QuotaExceededError extends RedisLockError {
  readonly code = 'QUOTA_EXCEEDED';
  readonly requested: number;
  readonly remaining: number;

  constructor(key: string, requested: number, remaining: number) {
    super(`The quota ${JSON.stringify(key)} has ${remaining} left: ${requested} cannot be taken.`, {
      keys: key,
    });
    this.requested = requested;
    this.remaining = remaining;
  }
}

/** No such quota: `init` or `grant` it first. HTTP 404. */
export class QuotaNotFoundError extends RedisLockError {
  readonly code = 'QUOTA_NOT_FOUND';

  constructor(key: string) {
    super(`There is no quota ${JSON.stringify(key)}: create it with init() or grant().`, { keys: key });
  }
}

/** The operation id was used with another amount, or is already refunded. HTTP 409. */
export class QuotaOperationError extends RedisLockError {
  readonly code = 'QUOTA_OPERATION';
  readonly operationId: string;

  constructor(key: string, operationId: string, message: string) {
    super(message, { keys: key });
    this.operationId = operationId;
  }
}

/** The amount is no positive safe integer. HTTP 400. */
export class QuotaAmountError extends RedisLockError {
  readonly code = 'QUOTA_AMOUNT';

  constructor(key: string, amount: unknown) {
    super(
      `An amount is a positive safe integer, not ${typeof amount === 'number' ? amount : `${typeof amount} ${String(amount)}`}.`,
      { keys: key },
    );
  }
}
