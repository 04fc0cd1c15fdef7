import type { ReplyPort } from '../idempotency/run-once.js';
import { bodyValue, storeBody } from '../idempotency/stored-body.js';
import {
  tombstone,
  type ReplayableReply,
  type StoredError,
  type StoredReply,
} from '../idempotency/stored-reply.js';
import { restoreHttpError, storeHttpError } from './http-reply-error.js';

const OK = 200;

/** Stores and replays plain values, as JSON: of services, cron jobs and queue processors. */
export class ValuePort implements ReplyPort {
  constructor(private readonly maxBodyBytes: number) {}

  status(): number {
    return OK;
  }

  store(value: unknown): { reply: StoredReply; value: unknown } {
    const body = storeBody(value, this.maxBodyBytes);
    return { reply: 'kind' in body ? { kind: 'value', body } : tombstone(body.reason), value };
  }

  storeError(error: unknown): StoredError | undefined {
    return storeHttpError(error, this.maxBodyBytes);
  }

  replay(reply: ReplayableReply): unknown {
    if (reply.kind === 'value') return bodyValue(reply.body);
    throw restoreHttpError(reply);
  }
}
