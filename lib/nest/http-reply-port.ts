import type { ExecutionContext } from '@nestjs/common';
import type { ReplyPort } from '../idempotency/run-once.js';
import type { ReplayableReply, StoredError, StoredReply } from '../idempotency/stored-reply.js';
import { tombstone } from '../idempotency/stored-reply.js';
import { httpBodyValue, storeHttpBody } from './http-reply-body.js';
import type { HttpReplyChannel } from './http-reply-channel.js';
import { restoreHttpError, storeHttpError } from './http-reply-error.js';

/** Under which Nest keeps what `@Redirect()` was given. */
const REDIRECT = '__redirect__';
const FOUND = 302;

interface RedirectMetadata {
  url?: unknown;
  statusCode?: number;
}

/** Stores and replays the replies of one HTTP request. */
export class HttpReplyPort implements ReplyPort {
  constructor(
    private readonly context: ExecutionContext,
    private readonly channel: HttpReplyChannel,
    private readonly maxBodyBytes: number,
  ) {}

  /** What the handler's `@Redirect()` says: then Nest redirects whatever value comes out. */
  get redirect(): { statusCode?: number } | undefined {
    const redirect = Reflect.getMetadata(REDIRECT, this.context.getHandler()) as RedirectMetadata | undefined;
    return typeof redirect?.url === 'string' ? redirect : undefined;
  }

  /** A redirect's status is set after the interceptors, from the value or the decorator. */
  status(value: unknown): number {
    const { redirect } = this;
    if (!redirect) return this.channel.status;
    const own = (value as { statusCode?: unknown } | null | undefined)?.statusCode;
    return typeof own === 'number' && own > 0 ? own : (redirect.statusCode ?? FOUND);
  }

  store(value: unknown): { reply: StoredReply; value: unknown } {
    if (this.channel.answered) return { reply: tombstone('the handler answered by itself'), value };
    const stored = storeHttpBody(value, this.maxBodyBytes);
    if (!('kind' in stored.body)) return { reply: tombstone(stored.body.reason), value: stored.value };
    const { status } = this.channel;
    return {
      reply: { kind: 'value', body: stored.body, status, headers: this.channel.headers() },
      value: stored.value,
    };
  }

  storeError(error: unknown): StoredError | undefined {
    const stored = storeHttpError(error, this.maxBodyBytes);
    return stored && { ...stored, headers: this.channel.headers() };
  }

  replay(reply: ReplayableReply): unknown {
    if (reply.kind === 'value') {
      this.channel.markReplayed(reply.status, reply.headers);
      return httpBodyValue(reply.body);
    }
    // the filter that answers the error sets the status
    this.channel.markReplayed(undefined, reply.headers);
    throw restoreHttpError(reply);
  }
}
