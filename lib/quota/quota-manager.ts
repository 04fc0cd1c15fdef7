import { randomUUID } from 'node:crypto';
import type { Backend, OperationRef, QuotaReply } from '../backend/backend.js';
import { isStoreUnavailable, withRetries } from '../backend/retry.js';
import {
  LockConfigError,
  QuotaAmountError,
  QuotaExceededError,
  QuotaNotFoundError,
  QuotaOperationError,
  StoreUnavailableError,
} from '../errors.js';
import { lockKey, type LockKey } from '../lock/lock-key.js';
import type { QuotaOperationOptions, QuotaReceipt } from './quota.js';

export interface QuotaManagerSettings {
  backend: Backend;
  /** Put before every key. @default '' */
  keyPrefix?: string;
  /** How long a granted operation is known again, in milliseconds. @default 86400000 (24 h) */
  operationTtlMs?: number;
}

/** Bounds one call with all its tries. */
const BUDGET_MS = 2_000;
const DEFAULT_OPERATION_TTL_MS = 86_400_000;
const LONGEST_OPERATION_ID = 255;

type Granted = Extract<QuotaReply, { status: 'granted' }>;

/**
 * Takes from and adds to quotas, each in one atomic step of the store. A try that was not answered is repeated
 * under the same id, so that it is carried out once; a caller is never told a guess.
 */
export class QuotaManager {
  private readonly backend: Backend;
  private readonly keyPrefix: string;
  private readonly operationTtlMs: number;

  constructor({ backend, keyPrefix = '', operationTtlMs = DEFAULT_OPERATION_TTL_MS }: QuotaManagerSettings) {
    this.backend = backend;
    this.keyPrefix = keyPrefix;
    this.operationTtlMs = operationTtlMs;
  }

  async init(key: string, amount: number): Promise<boolean> {
    const { name, full } = lockKey(key, this.keyPrefix);
    checkAmount(name, amount);
    let unanswered = false;
    const created = await this.retrying((timeoutMs) =>
      this.backend.quotas.init(full, amount, timeoutMs).catch((error: unknown) => {
        unanswered ||= isStoreUnavailable(error) && error.outcome === 'unknown';
        throw error;
      }),
    );
    // The unanswered try may have created it, or somebody before: true and false would both be a guess.
    if (!created && unanswered) {
      throw new StoreUnavailableError(
        `The quota ${JSON.stringify(name)} exists, but a try was never answered, so it is unknown who created it.`,
        { keys: name, outcome: 'unknown', retryable: true },
      );
    }
    return created;
  }

  async grant(key: string, amount: number, options?: QuotaOperationOptions): Promise<QuotaReceipt> {
    const { quota, operation } = this.operation(key, amount, options);
    const reply = await this.retrying((timeoutMs) =>
      this.backend.quotas.grant(quota.full, amount, operation, timeoutMs),
    );
    return receipt(quota, expectGranted(quota, reply, amount, operation), operation);
  }

  async deduct(key: string, amount = 1, options?: QuotaOperationOptions): Promise<QuotaReceipt> {
    const { quota, operation } = this.operation(key, amount, options);
    const reply = await this.deductOnce(quota, amount, operation);
    return receipt(quota, expectGranted(quota, reply, amount, operation), operation);
  }

  async tryDeduct(key: string, amount = 1, options?: QuotaOperationOptions): Promise<QuotaReceipt | null> {
    const { quota, operation } = this.operation(key, amount, options);
    const reply = await this.deductOnce(quota, amount, operation);
    if (reply.status === 'exceeded') return null;
    return receipt(quota, expectGranted(quota, reply, amount, operation), operation);
  }

  async refund(key: string, operationId: string): Promise<QuotaReceipt | null> {
    const { name, full } = lockKey(key, this.keyPrefix);
    checkOperationId(name, operationId);
    const reply = await this.retrying((timeoutMs) =>
      this.backend.quotas.refund(full, operationId, this.operationTtlMs, timeoutMs),
    );
    if (reply.status === 'unknown') return null;
    const { amount, remaining, replayed } = reply;
    return { key: name, amount, remaining, operationId, replayed };
  }

  async remaining(key: string): Promise<number | null> {
    const { full } = lockKey(key, this.keyPrefix);
    return this.retrying((timeoutMs) => this.backend.quotas.remaining(full, timeoutMs));
  }

  private operation(
    key: string,
    amount: number,
    options: QuotaOperationOptions | undefined,
  ): { quota: LockKey; operation: OperationRef } {
    const quota = lockKey(key, this.keyPrefix);
    checkAmount(quota.name, amount);
    const operationId = readOperationId(quota.name, options);
    return {
      quota,
      operation: {
        ...(operationId === undefined ? {} : { operationId }),
        operationTtlMs: this.operationTtlMs,
        callId: randomUUID(),
      },
    };
  }

  private deductOnce(quota: LockKey, amount: number, operation: OperationRef): Promise<QuotaReply> {
    return this.retrying((timeoutMs) => this.backend.quotas.deduct(quota.full, amount, operation, timeoutMs));
  }

  private retrying<T>(attempt: (timeoutMs: number) => Promise<T>): Promise<T> {
    return withRetries(this.backend, { budgetMs: BUDGET_MS }, attempt);
  }
}

function receipt({ name }: LockKey, reply: Granted, { operationId }: OperationRef): QuotaReceipt {
  const { amount, remaining, replayed } = reply;
  // Without an id of the caller's only our own retry can be a replay, and it answers the one call there was.
  if (operationId === undefined) return { key: name, amount, remaining, replayed: false };
  return { key: name, amount, remaining, operationId, replayed };
}

function expectGranted(
  { name }: LockKey,
  reply: QuotaReply,
  requested: number,
  { operationId = '' }: OperationRef,
): Granted {
  const id = JSON.stringify(operationId);
  switch (reply.status) {
    case 'granted':
      return reply;
    case 'exceeded':
      throw new QuotaExceededError(name, requested, reply.remaining);
    case 'notFound':
      throw new QuotaNotFoundError(name);
    case 'otherAmount':
      throw new QuotaOperationError(
        name,
        operationId,
        `The operation id ${id} was used for something else (amount ${reply.amount}): a new operation needs a new id.`,
      );
    case 'refunded':
      throw new QuotaOperationError(
        name,
        operationId,
        `The operation ${id} was refunded: a new operation needs a new id.`,
      );
  }
}

function checkAmount(name: string, amount: unknown): void {
  if (!Number.isSafeInteger(amount) || (amount as number) <= 0) throw new QuotaAmountError(name, amount);
}

function readOperationId(name: string, options: QuotaOperationOptions | undefined): string | undefined {
  if (options === undefined) return undefined;
  // A bare string would otherwise pass as options without an id, and the operation as one that repeats.
  if (typeof options !== 'object' || options === null) {
    throw new LockConfigError({
      path: 'quota',
      message: "options are one object, e.g. { operationId: 'order:1' }",
    });
  }
  for (const option of Object.keys(options)) {
    if (option !== 'operationId') {
      throw new LockConfigError({ path: `quota.${option}`, message: 'is no option; there is operationId' });
    }
  }
  if (options.operationId === undefined) return undefined;
  checkOperationId(name, options.operationId);
  return options.operationId;
}

function checkOperationId(name: string, id: unknown): void {
  // ill-formed Unicode would become the same bytes as another's: two operations, one receipt
  if (typeof id === 'string' && id !== '' && id.length <= LONGEST_OPERATION_ID && id.isWellFormed()) return;
  const found = typeof id === 'string' ? `one of ${id.length} characters` : id === null ? 'null' : typeof id;
  throw new QuotaOperationError(
    name,
    typeof id === 'string' ? id : '',
    `An operation id is a well-formed string of 1 to ${LONGEST_OPERATION_ID} characters, not ${found}.`,
  );
}
