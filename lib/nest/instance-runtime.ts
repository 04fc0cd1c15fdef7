import type { ExecutionContext } from '@nestjs/common';
import type { IdempotentSpec, ResolvedIdempotencyDefaults } from '../idempotency/idempotency-options.js';
import type { LockManager } from '../lock/lock-manager.js';
import type { ResolvedLockOptions } from '../lock/lock-options.js';
import type { CallContext } from './call-context.js';
import type { GuardSpec } from './guard-spec.js';
import type { GuardedRun } from './guarded-run.js';

/** The part of the idempotency layer that decorated methods use. */
export interface IdempotencyRunner {
  handleHttp(
    spec: IdempotentSpec,
    context: ExecutionContext,
    call: CallContext,
    run: () => GuardedRun,
  ): Promise<unknown>;
  handleMessage(
    spec: IdempotentSpec,
    context: ExecutionContext,
    call: CallContext,
    run: () => GuardedRun,
  ): Promise<unknown>;
  handlePlain(spec: IdempotentSpec, call: CallContext, run: () => GuardedRun): Promise<unknown>;
}

/** What decorated methods need of one instance of the module. */
export interface InstanceRuntime {
  /** The application's `LockService`, or what a test put in its place. */
  readonly locks: Pick<LockManager, 'withLock'>;
  /** Missing when an object was bound by hand to a lock service alone. */
  readonly idempotency?: {
    readonly runner: IdempotencyRunner;
    /** The declaration of a method with this instance's defaults filled in. */
    specFor(spec: GuardSpec): IdempotentSpec;
  };
  /** The defaults that declarations are checked against at start-up. */
  readonly defaults?: {
    readonly lock: ResolvedLockOptions;
    readonly idempotency: ResolvedIdempotencyDefaults;
  };
}
