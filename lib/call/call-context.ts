/** Where the values of `@LockParam()` parameters stand in a {@link CallContext}. @internal */
export const LOCK_PARAMS: unique symbol = Symbol.for('nestjs-redis-lock/lock-params');

/** What a key template or key function may look at: one shape for every kind of call. */
export interface CallContext<A extends readonly any[] = any[], Body = any> {
  /**
   * The arguments of the method. Of an HTTP handler the request, the response and `next`: its own arguments
   * are made by pipes, which run under the lock. Of a message what its transport passes (`[payload, context]`,
   * `[client, payload]`), of a GraphQL field `[root, args, context, info]`; in a hybrid application that does not
   * inherit its configuration, the handler's own. `data` is the payload in all of them.
   */
  args: A;
  /** Route params. */
  params: Record<string, string>;
  query: Record<string, any>;
  /** The request's body, before any pipe. */
  body: Body;
  /** Request headers, lower case. */
  headers: Record<string, string | string[] | undefined>;
  user: any;
  /** Message payload or GraphQL arguments. */
  data: any;
  /** The parameters named by `@LockParam()`. @internal */
  readonly [LOCK_PARAMS]?: Readonly<Record<string, unknown>>;
}
