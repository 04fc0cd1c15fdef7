import { Logger, type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import type { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import { catchError, EmptyError, Observable, throwError } from 'rxjs';
import { applicationEntry } from './application-registry.js';
import { callFromHttp } from './call-factory.js';
import { isBare } from './call-mark.js';
import { toHttpException, type ErrorTable } from './error-table.js';
import { guardParts } from './guard-parts.js';
import { specOf, type GuardSpec } from './guard-spec.js';
import { answerSection, type GuardedSection } from './guarded-section.js';
import { guardedStream } from './guarded-stream.js';
import { isRoute, isServerSentEvents } from './handler-kind.js';
import { REQUESTED_VERSION, requestedVersion } from './requested-version.js';

/**
 * Guards HTTP handlers. It stands first of all interceptors, so that everything of the application (serialisers,
 * transactions, time-outs) runs inside the lock and its result is what idempotency stores. One serves all
 * named instances of an application.
 */
export class GuardInterceptor implements NestInterceptor {
  private readonly logger = new Logger('RedisLock');

  constructor(
    private readonly modules: ModulesContainer,
    private readonly errors: ErrorTable,
    private readonly config: ApplicationConfig,
  ) {}

  /** Synchronous for undecorated routes: they pay for nothing but the mapping of errors. */
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    if (context.getType() !== 'http') return next.handle();
    const response: unknown = context.switchToHttp().getResponse();
    const handler = context.getHandler();
    const spec = specOf(handler);
    const answer = spec && isRoute(handler) && !isBare() ? this.guarded(spec, context, next) : next.handle();
    return answer.pipe(
      catchError((error: unknown) => throwError(() => toHttpException(error, this.errors, response))),
    );
  }

  private guarded(spec: GuardSpec, context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const { holders } = applicationEntry(this.modules);
    const section: Omit<GuardedSection, 'invoke'> = {
      spec,
      parts: guardParts(spec, (name) => holders.get(name)),
      call: Object.assign(callFromHttp(context), {
        [REQUESTED_VERSION]: requestedVersion(this.config, context),
      }),
      cls: context.getClass(),
    };
    return isServerSentEvents(context.getHandler())
      ? guardedStream(section, () => next.handle())
      : this.detached(section, context, next);
  }

  /**
   * The answer of a plain handler. A client that leaves makes Nest unsubscribe: the work, the lock and the
   * completion go on all the same, so nothing is passed inwards.
   */
  private detached(
    section: Omit<GuardedSection, 'invoke'>,
    context: ExecutionContext,
    next: CallHandler,
  ): Observable<unknown> {
    return new Observable((subscriber) => {
      let emptied = false;
      const invoke = (): Promise<unknown> =>
        new Promise((resolve, reject) => {
          let last: unknown;
          emptied = true;
          next.handle().subscribe({
            next: (value) => {
              last = value;
              emptied = false;
            },
            error: reject,
            // without a value Nest answers with this error: what is not an answer must not be stored as one
            complete: () => (emptied && section.parts.idempotency ? reject(new EmptyError()) : resolve(last)),
          });
        });
      const { spec, call, parts } = section;
      const idempotency = parts.idempotency;
      answerSection(
        { ...section, invoke },
        idempotency &&
          ((run) => idempotency.runner.handleHttp(idempotency.specFor(spec), context, call, run)),
      ).then(
        (value) => {
          // An Observable that ended without a value is Nest's to judge, as it would be without us.
          if (!emptied || value !== undefined) subscriber.next(value);
          subscriber.complete();
        },
        (error: unknown) => {
          if (subscriber.closed)
            this.logger.warn(`${spec.label} failed after its client had gone: ${String(error)}`);
          subscriber.error(error);
        },
      );
    });
  }
}
