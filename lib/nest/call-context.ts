import type { ExecutionContext } from '@nestjs/common';

/** `context` is added here and not in `call/`: nothing but `nest/` knows Nest. */
declare module '../call/call-context.js' {
  interface CallContext<A extends readonly any[] = any[], Body = any> {
    /** Nest's execution context; absent when the method was called directly. */
    context?: ExecutionContext;
  }
}

export type { CallContext } from '../call/call-context.js';
