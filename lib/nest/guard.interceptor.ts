import type { CallHandler, ContextType, ExecutionContext, NestInterceptor } from '@nestjs/common';
import type { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import { catchError, throwError, type Observable } from 'rxjs';
import { applicationEntry } from './application-registry.js';
import { callFromContext } from './call-factory.js';
import { isBare } from './call-mark.js';
import { detachedAnswer, detachedAnswers } from './detached-answer.js';
import { toHttpException, type ErrorTable } from './error-table.js';
import { guardParts } from './guard-parts.js';
import { specOf, type GuardSpec } from './guard-spec.js';
import type { GuardedSection } from './guarded-section.js';
import { guardedStream } from './guarded-stream.js';
import { isRoute, isServerSentEvents } from './handler-kind.js';
import { REQUESTED_VERSION, requestedVersion } from './requested-version.js';

/** Nest's own name for a call that comes through GraphQL. */
type CallType = ContextType | 'graphql';

/**
 * Guards the handlers of every transport. It stands first of all interceptors, so that everything of the
 * application (serialisers, transactions, time-outs) runs inside the lock and its result is what idempotency
 * stores. One serves all named instances of an application. Handlers that it does not reach (those of a hybrid
 * application without `inheritAppConfig`) are guarded by the method itself.
 */
export class GuardInterceptor implements NestInterceptor {
  constructor(
    private readonly modules: ModulesContainer,
    private readonly errors: ErrorTable,
    private readonly config: ApplicationConfig,
  ) {}

  /** Synchronous for undecorated handlers: they pay for nothing but the mapping of errors. */
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const type = context.getType<CallType>();
    const handler = context.getHandler();
    const spec = specOf(handler);
    const guarded = spec !== undefined && (type !== 'http' || isRoute(handler)) && !isBare();
    const answer = guarded ? this.guarded(spec, type, context, next) : next.handle();
    // a filter of the application answers messages: Nest's exceptions for them are no part of its core
    if (type === 'rpc' || type === 'ws') return answer;
    const response: unknown = type === 'http' ? context.switchToHttp().getResponse() : undefined;
    return answer.pipe(
      catchError((error: unknown) => throwError(() => toHttpException(error, this.errors, response))),
    );
  }

  private guarded(
    spec: GuardSpec,
    type: CallType,
    context: ExecutionContext,
    next: CallHandler,
  ): Observable<unknown> {
    const { holders } = applicationEntry(this.modules);
    const call = callFromContext(context);
    if (type === 'http') {
      Object.assign(call, { [REQUESTED_VERSION]: requestedVersion(this.config, context) });
    }
    const parts = guardParts(spec, (name) => holders.get(name));
    const section: Omit<GuardedSection, 'invoke'> = { spec, parts, call, cls: context.getClass() };
    const source = (): Observable<unknown> => next.handle();
    const { idempotency } = parts;
    if (type === 'rpc' || type === 'ws') {
      return idempotency
        ? detachedAnswers(section, source, (run) =>
            idempotency.runner.handleMessage(idempotency.specFor(spec), context, call, run),
          )
        : guardedStream(section, source);
    }
    if (type === 'http' && isServerSentEvents(context.getHandler())) return guardedStream(section, source);
    const how = type === 'http' ? 'handleHttp' : 'handleMessage';
    return detachedAnswer(
      section,
      source,
      idempotency && ((run) => idempotency.runner[how](idempotency.specFor(spec), context, call, run)),
    );
  }
}
