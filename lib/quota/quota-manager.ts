import type { Backend, QuotaReply } from '../backend/backend.js';
import { isStoreUnavailable, withRetries } from '../backend/retry.js';
import { LockConfigError, StoreUnavailableError } from '../errors.js';
import { lockKey, type LockKey } from '../lock/lock-key.js';
import type { LockManager } from '../lock/lock-manager.js';
import { checkAmount, checkOperationId, checkOptions } from './quota-call-options.js';
import type { CallLimits } from './quota-combiner.js';
import { QuotaLines } from './quota-lines.js';
import { failure, receipt } from './quota-receipt.js';
import type { QuotaOperationOptions, QuotaReceipt } from './quota.js';
import { ShardGatherer } from './shard-gatherer.js';
import { ShardInitialiser } from './shard-initialiser.js';
import { ShardLooks } from './shard-looks.js';
import { NO_SHARDS, shardsOf, type ShardPlan } from './shard-plan.js';
import { ShardRequests } from './shard-requests.js';
import { ShardedQuota } from './sharded-quota.js';

export interface QuotaManagerSettings {
  backend: Backend;
  /** Put before every key. @default '' */
  keyPrefix?: string;
  /** How long a granted operation is known again, in milliseconds. @default 86400000 (24 h) */
  operationTtlMs?: number;
  /** Which quotas are spread over several keys. @default none */
  shards?: ShardPlan;
  /** What an amount is gathered under that no shard has by itself; with the same prefix. Needed where there are shards. */
  locks?: LockManager;
}

/** Bounds one call with all its tries. */
const BUDGET_MS = 2_000;
const DEFAULT_OPERATION_TTL_MS = 86_400_000;

/**
 * Takes from and adds to quotas, each in one atomic step of the store. A try that was not answered is repeated
 * under the same id, so that it is carried out once; a caller is never told a guess.
 */
export class QuotaManager {
  private readonly backend: Backend;
  private readonly keyPrefix: string;
  private readonly plan: ShardPlan;
  private readonly lines: QuotaLines;
  private readonly initialiser: ShardInitialiser;
  private readonly sharded: ShardedQuota | undefined;

  /** @throws LockConfigError when there are shards and no locks. */
  constructor(settings: QuotaManagerSettings) {
    const { backend, keyPrefix = '', operationTtlMs = DEFAULT_OPERATION_TTL_MS } = settings;
    const { shards = NO_SHARDS, locks } = settings;
    this.backend = backend;
    this.keyPrefix = keyPrefix;
    this.plan = shards;
    const lines = new QuotaLines(backend, operationTtlMs);
    const looks = new ShardLooks(backend);
    this.lines = lines;
    this.initialiser = new ShardInitialiser(backend, looks);
    if (shards.exact.size + shards.prefixes.length === 0) return;
    if (!locks) throw new LockConfigError({ path: 'quota.shards', message: 'need a lock manager' });
    const requests = new ShardRequests(backend, lines, looks);
    const gatherer = new ShardGatherer(requests, locks);
    this.sharded = new ShardedQuota({ lines, looks, requests, gatherer, operationTtlMs });
  }

  async init(key: string, amount: number): Promise<boolean> {
    const quota = lockKey(key, this.keyPrefix);
    checkAmount(quota.name, amount);
    const spread = this.spread(quota);
    if (spread) return this.initialiser.init(spread, amount, limits());
    let unanswered = false;
    const created = await this.retrying((timeoutMs) =>
      this.backend.quotas.init(quota.full, amount, timeoutMs).catch((error: unknown) => {
        unanswered ||= isStoreUnavailable(error) && error.outcome === 'unknown';
        throw error;
      }),
    );
    // The unanswered try may have created it, or somebody before: true and false would both be a guess.
    if (!created && unanswered) {
      throw new StoreUnavailableError(
        `The quota ${JSON.stringify(key)} exists, but a try was never answered, so it is unknown who created it.`,
        { keys: key, outcome: 'unknown', retryable: true },
      );
    }
    return created;
  }

  async grant(key: string, amount: number, options?: QuotaOperationOptions): Promise<QuotaReceipt> {
    const quota = lockKey(key, this.keyPrefix);
    checkAmount(quota.name, amount);
    const { operationId, signal } = checkOptions(quota.name, options);
    const spread = this.spread(quota);
    const within = limits(signal);
    const reply = await (spread
      ? this.sharded!.grant(spread, amount, operationId, within)
      : this.lines.submit(quota.full, { kind: 'grant', amount, ...named(operationId) }, within));
    if (reply.status === 'granted') return receipt(quota.name, reply, operationId);
    throw told(quota, reply, amount, operationId);
  }

  async deduct(key: string, amount = 1, options?: QuotaOperationOptions): Promise<QuotaReceipt> {
    const quota = lockKey(key, this.keyPrefix);
    const reply = await this.take(quota, amount, options);
    if (reply.status === 'granted') return receipt(quota.name, reply, options?.operationId);
    throw told(quota, reply, amount, options?.operationId);
  }

  async tryDeduct(key: string, amount = 1, options?: QuotaOperationOptions): Promise<QuotaReceipt | null> {
    const quota = lockKey(key, this.keyPrefix);
    const reply = await this.take(quota, amount, options);
    if (reply.status === 'granted') return receipt(quota.name, reply, options?.operationId);
    if (reply.status === 'exceeded') return null;
    throw told(quota, reply, amount, options?.operationId);
  }

  async refund(key: string, operationId: string): Promise<QuotaReceipt | null> {
    const quota = lockKey(key, this.keyPrefix);
    checkOperationId(quota.name, operationId);
    const spread = this.spread(quota);
    const reply = await (spread
      ? this.sharded!.refund(spread, operationId, limits())
      : this.lines.submit(quota.full, { kind: 'refund', operationId }, limits()));
    if (reply.status === 'unknown') return null;
    if (reply.status === 'givenBack') return receipt(quota.name, reply, operationId);
    throw told(quota, reply, 0, operationId);
  }

  async remaining(key: string): Promise<number | null> {
    const quota = lockKey(key, this.keyPrefix);
    const spread = this.spread(quota);
    if (spread) return this.sharded!.remaining(spread, limits());
    return this.retrying((timeoutMs) => this.backend.quotas.remaining(quota.full, timeoutMs));
  }

  private take(
    quota: LockKey,
    amount: number,
    options: QuotaOperationOptions | undefined,
  ): Promise<QuotaReply> {
    checkAmount(quota.name, amount);
    const { operationId, signal } = checkOptions(quota.name, options);
    const spread = this.spread(quota);
    if (spread) return this.sharded!.deduct(spread, amount, operationId, limits(signal));
    return this.lines.submit(quota.full, { kind: 'deduct', amount, ...named(operationId) }, limits(signal));
  }

  private spread(quota: LockKey): ReturnType<typeof shardsOf> {
    return this.sharded && shardsOf(this.plan, quota);
  }

  private retrying<T>(attempt: (timeoutMs: number) => Promise<T>): Promise<T> {
    return withRetries(this.backend, { budgetMs: BUDGET_MS }, attempt);
  }
}

function limits(signal?: AbortSignal): CallLimits {
  return { endAt: performance.now() + BUDGET_MS, ...(signal ? { signal } : {}) };
}

function named(operationId: string | undefined): { operationId?: string } {
  return operationId === undefined ? {} : { operationId };
}

function told(
  { name }: LockKey,
  reply: Parameters<typeof failure>[1] | Extract<QuotaReply, { status: 'granted' | 'givenBack' }>,
  amount: number,
  operationId: string | undefined,
): Error {
  // a deduction is not answered like a refund, nor a refund like a deduction
  if (reply.status === 'granted' || reply.status === 'givenBack') {
    return new TypeError(`The store answered ${reply.status} to something else.`);
  }
  return failure(name, reply, { amount, operationId });
}
