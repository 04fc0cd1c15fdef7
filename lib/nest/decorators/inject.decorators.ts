import { Inject } from '@nestjs/common';
import { getIdempotencyServiceToken, getLockServiceToken, getQuotaServiceToken } from '../tokens.js';

/** Injects a `LockService`. @param name the named instance; none: the unnamed one. */
export const InjectLockService = (name?: string): PropertyDecorator & ParameterDecorator =>
  Inject(getLockServiceToken(name));

/** Injects an `IdempotencyService`. @param name the named instance; none: the unnamed one. */
export const InjectIdempotencyService = (name?: string): PropertyDecorator & ParameterDecorator =>
  Inject(getIdempotencyServiceToken(name));

/** Injects a `QuotaService`. @param name the named instance; none: the unnamed one. */
export const InjectQuotaService = (name?: string): PropertyDecorator & ParameterDecorator =>
  Inject(getQuotaServiceToken(name));
