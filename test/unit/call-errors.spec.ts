import { HttpException } from '@nestjs/common';
import {
  IdempotencyInProgressError,
  IdempotencyMismatchError,
  LockBusyError,
  LockClosedError,
  LockConfigError,
  LockKeyError,
  LockTimeoutError,
  QuotaAmountError,
  QuotaNotFoundError,
  StoreUnavailableError,
} from '../../lib/errors.js';
import { DEFAULT_ERROR_TABLE, errorTable, toHttpException } from '../../lib/nest/error-table.js';

function mapped(error: unknown, overrides = {}, reply: object = {}) {
  const headers: Record<string, string> = {};
  const response = { header: (name: string, value: string) => (headers[name] = value), ...reply };
  const exception = toHttpException(error, errorTable(overrides), response) as HttpException;
  return { exception, headers };
}

describe('the HTTP answer of an error', () => {
  it.each([
    [new LockBusyError(['k']), 409, '1'],
    [new LockTimeoutError(['k'], 5), 409, '1'],
    [new LockKeyError('no key'), 400, undefined],
    [new LockClosedError(), 503, '1'],
    [new StoreUnavailableError('connect ECONNREFUSED 10.0.0.5'), 503, '1'],
    [new IdempotencyMismatchError('r'), 422, undefined],
    [new QuotaNotFoundError('q'), 404, undefined],
    [new QuotaAmountError('q', 0), 400, undefined],
  ])('is that of the table, with the error as its cause: %s', (error, status, retryAfter) => {
    const { exception, headers } = mapped(error);
    expect(exception).toBeInstanceOf(HttpException);
    expect(exception.getStatus()).toBe(status);
    expect(exception.getResponse()).toEqual({
      statusCode: status,
      code: error.code,
      message: expect.any(String),
    });
    expect(exception.cause).toBe(error);
    expect(headers['Retry-After']).toBe(retryAfter);
  });

  it('has an entry for every code that may reach a request', () => {
    expect(Object.keys(DEFAULT_ERROR_TABLE)).toHaveLength(15);
  });

  it('tells nobody where the store is', () => {
    const { exception } = mapped(new StoreUnavailableError('connect ECONNREFUSED 10.0.0.5'));
    expect(JSON.stringify(exception.getResponse())).not.toContain('10.0.0.5');
  });

  it.each([
    [5_000, '1'],
    [1_000, '1'],
    [999, '0'],
    [0, '0'],
    [-1, '0'],
  ])('never asks to wait longer than the lease that is left: %i ms', (leaseMs, retryAfter) => {
    expect(mapped(new IdempotencyInProgressError('r', leaseMs)).headers['Retry-After']).toBe(retryAfter);
  });

  it('may be overridden, one entry at a time', () => {
    const { exception, headers } = mapped(new LockBusyError(['k']), {
      LOCK_BUSY: { status: 423, message: 'later' },
    });
    expect(exception.getResponse()).toEqual({ statusCode: 423, code: 'LOCK_BUSY', message: 'later' });
    expect(headers).toEqual({});
    expect(mapped(new LockKeyError('x'), { LOCK_BUSY: { status: 423 } }).exception.getStatus()).toBe(400);
  });

  it('sets no header on an answer that has begun', () => {
    expect(mapped(new LockBusyError(['k']), {}, { headersSent: true }).headers).toEqual({});
    expect(mapped(new LockBusyError(['k']), {}, { sent: true }).headers).toEqual({});
  });

  it.each([
    ['a configuration error', new LockConfigError({ path: 'a', message: 'b' })],
    ["the application's own", new Error('mine')],
    ['one that only looks like ours', Object.assign(new Error('mine'), { code: 'LOCK_BUSY', keys: [] })],
    ['no error at all', undefined],
  ])('leaves %s as it is', (_, error) => {
    expect(mapped(error).exception).toBe(error);
  });
});
