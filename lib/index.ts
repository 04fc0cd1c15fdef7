/** The public names, one by one. Also see `nestjs-redis-lock/testing`. */

// the module
export {
  RedisLockModule,
  type RedisLockModuleAsyncOptions,
  type RedisLockModuleRootOptions,
} from './nest/redis-lock.module.js';
export type { RedisLockModuleExtras, RedisLockModuleOptions } from './nest/module-options.js';
export {
  REDIS_LOCK_ERROR_TABLE,
  getIdempotencyServiceToken,
  getLockServiceToken,
  getQuotaServiceToken,
} from './nest/tokens.js';

// the services
export { IdempotencyService } from './nest/idempotency.service.js';
export { LockService } from './nest/lock.service.js';
export { QuotaService } from './nest/quota.service.js';

// the decorators
export { AllowBare } from './nest/decorators/allow-bare.decorator.js';
export { CurrentLock } from './nest/decorators/current-lock.decorator.js';
export {
  DistributedLock,
  type DistributedLockOptions,
} from './nest/decorators/distributed-lock.decorator.js';
export { Idempotent } from './nest/decorators/idempotent.decorator.js';
export {
  InjectIdempotencyService,
  InjectLockService,
  InjectQuotaService,
} from './nest/decorators/inject.decorators.js';
export { LockParam } from './nest/decorators/lock-param.decorator.js';

// options of @Idempotent for the callbacks of payment providers
export { adyenNotification } from './idempotency/providers/adyen.js';
export { alipayCallback } from './idempotency/providers/alipay.js';
export { stripeEvent } from './idempotency/providers/stripe.js';
export { wechatPayV3Callback } from './idempotency/providers/wechat-pay.js';

// their types
export type { Duration } from './duration.js';
export type { CallContext } from './nest/call-context.js';
export type { KeyTemplate } from './call/key-template.js';
export type { Lock, LockEvent, LockInfo, LockOptions } from './lock/lock.js';
export type {
  ExecuteOptions,
  IdempotencyDefaults,
  IdempotencyEvent,
  IdempotencyRecordInfo,
  IdempotentOptions,
  OnError,
} from './idempotency/idempotency.js';
export type { QuotaOperationOptions, QuotaReceipt } from './quota/quota.js';
export type { ErrorTable, ErrorTableEntry } from './nest/error-table.js';

// what a backend of one's own must do
export type * from './backend/backend.js';

// the errors
export * from './errors.js';
