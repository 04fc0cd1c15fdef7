import { LockConfigError, QuotaAmountError, QuotaOperationError } from '../errors.js';
import type { QuotaOperationOptions } from './quota.js';

const LONGEST_OPERATION_ID = 255;

/** @throws QuotaAmountError */
export function checkAmount(name: string, amount: unknown): void {
  if (!Number.isSafeInteger(amount) || (amount as number) <= 0) throw new QuotaAmountError(name, amount);
}

/**
 * @throws LockConfigError for what are no options.
 * @throws QuotaOperationError for an operation id that is none.
 */
export function checkOptions(
  name: string,
  options: QuotaOperationOptions | undefined,
): QuotaOperationOptions {
  if (options === undefined) return {};
  // A bare string would otherwise pass as options without an id, and the operation as one that repeats.
  if (typeof options !== 'object' || options === null) {
    throw new LockConfigError({
      path: 'quota',
      message: "options are one object, e.g. { operationId: 'order:1' }",
    });
  }
  for (const option of Object.keys(options)) {
    if (option !== 'operationId' && option !== 'signal') {
      throw new LockConfigError({
        path: `quota.${option}`,
        message: 'is no option; there are operationId, signal',
      });
    }
  }
  if (options.operationId !== undefined) checkOperationId(name, options.operationId);
  if (options.signal !== undefined && !(options.signal instanceof AbortSignal)) {
    throw new LockConfigError({ path: 'quota.signal', message: 'is an AbortSignal' });
  }
  return options;
}

/** @throws QuotaOperationError */
export function checkOperationId(name: string, id: unknown): void {
  // ill-formed Unicode would become the same bytes as another's: two operations, one receipt
  if (typeof id === 'string' && id !== '' && id.length <= LONGEST_OPERATION_ID && id.isWellFormed()) return;
  const found = typeof id === 'string' ? `one of ${id.length} characters` : id === null ? 'null' : typeof id;
  throw new QuotaOperationError(
    name,
    typeof id === 'string' ? id : '',
    `An operation id is a well-formed string of 1 to ${LONGEST_OPERATION_ID} characters, not ${found}.`,
  );
}
