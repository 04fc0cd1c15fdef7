import { HttpException, type ExecutionContext } from '@nestjs/common';
import { IdempotencyInProgressError, isRedisLockError } from '../errors.js';
import { redactionBy } from '../idempotency/before-store.js';
import { fingerprintOf } from '../idempotency/fingerprint.js';
import type { IdempotencyEngine } from '../idempotency/idempotency-engine.js';
import type { IdempotentSpec } from '../idempotency/idempotency-options.js';
import { runOnce, type ReplyPort } from '../idempotency/run-once.js';
import type { CallContext } from './call-context.js';
import type { GuardedRun } from './guarded-run.js';
import { HttpReplyChannel } from './http-reply-channel.js';
import { HttpReplyPort } from './http-reply-port.js';
import { isGraphql } from './graphql-request.js';
import { GraphqlValuePort } from './graphql-value-port.js';
import { graphqlRoot } from './handler-kind.js';
import { recordKeyOf } from './idempotent-identity.js';
import { changesNothing } from './idempotent-request.js';
import { ValuePort } from './idempotent-value-port.js';

const CONFLICT = 409;

/**
 * What `@Idempotent` does with a call. Errors of this package are thrown as they are; mapping them to a
 * transport is done further out.
 */
export class IdempotentHandler {
  constructor(private readonly engine: IdempotencyEngine) {}

  /**
   * An HTTP request: the first one runs, a repeat gets its status, safe headers and exact body.
   *
   * @param run begins everything inside; called at most once, and only when this request is the one that runs.
   */
  async handleHttp(
    spec: IdempotentSpec,
    context: ExecutionContext,
    call: CallContext,
    run: () => GuardedRun,
  ): Promise<unknown> {
    if (changesNothing(context)) return run().value;
    const channel = new HttpReplyChannel(context, spec.replayHeaders);
    const port = new HttpReplyPort(context, channel, spec.maxBodyBytes);
    let begun = false;
    try {
      return await this.#once(spec, call, context, port, () => {
        begun = true;
        return run();
      });
    } catch (error) {
      // the same error from inside the handler is the handler's own
      if (begun || !spec.inFlightReply || !isRedisLockError(error, 'IDEMPOTENCY_IN_PROGRESS')) throw error;
      const body = await spec.inFlightReply(call);
      channel.setHeader('Retry-After', String(retryAfter(error as IdempotencyInProgressError)));
      if (port.redirect) throw new HttpException(body as string | Record<string, unknown>, CONFLICT);
      channel.setStatus(CONFLICT);
      return body;
    }
  }

  /** A message or a GraphQL field: its value is stored as JSON. A GraphQL query changes nothing and passes through. */
  async handleMessage(
    spec: IdempotentSpec,
    context: ExecutionContext,
    call: CallContext,
    run: () => GuardedRun,
  ): Promise<unknown> {
    if (graphqlRoot(context.getHandler()) === 'Query') return run().value;
    const port = isGraphql(context)
      ? new GraphqlValuePort(context, spec.maxBodyBytes)
      : new ValuePort(spec.maxBodyBytes);
    return this.#once(spec, call, context, port, run);
  }

  /** A call of a plain method: its value is stored as JSON. */
  handlePlain(spec: IdempotentSpec, call: CallContext, run: () => GuardedRun): Promise<unknown> {
    return this.#once(spec, call, undefined, new ValuePort(spec.maxBodyBytes), run);
  }

  async #once(
    spec: IdempotentSpec,
    call: CallContext,
    context: ExecutionContext | undefined,
    port: ReplyPort,
    run: () => GuardedRun,
  ): Promise<unknown> {
    const recordKey = recordKeyOf(this.engine.keyPrefix, spec, call, context);
    if (recordKey === undefined) return run().value;
    const { ttlMs, leaseMs, onConcurrent, waitTimeoutMs, onStoreDown, isSuccess } = spec;
    const { beforeStore, codec, maxBodyBytes } = spec;
    const made = fingerprintOf(spec.fingerprint, compared(spec, call));
    const fingerprint = made instanceof Promise ? await made : made;
    const { value } = await runOnce(
      this.engine,
      {
        recordKey,
        fingerprint,
        ttlMs,
        leaseMs,
        onConcurrent,
        waitTimeoutMs,
        onStoreDown,
        ...(codec && { codec }),
      },
      {
        onError: typeof spec.onError === 'function' ? bind(spec.onError, call) : spec.onError,
        ...(isSuccess && { isSuccess }),
        ...(beforeStore && { redact: redactionBy((kept) => beforeStore(kept, call), maxBodyBytes) }),
      },
      port,
      run,
    );
    return value;
  }
}

/** Where there is no body, what was sent in its place is compared: a message, GraphQL's or a method's arguments. */
function compared({ fingerprint }: IdempotentSpec, call: CallContext): CallContext {
  if (call.body !== undefined || typeof fingerprint === 'function') return call;
  const { data, args, context } = call;
  return { ...call, body: data !== undefined || context ? data : args } as CallContext;
}

function bind<E, R>(onError: (error: E, call: CallContext) => R, call: CallContext): (error: E) => R {
  return (error) => onError(error, call);
}

/** Never more than the lease that is left. */
function retryAfter({ leaseMs }: IdempotencyInProgressError): number {
  return Math.min(1, Math.floor(leaseMs / 1_000));
}
