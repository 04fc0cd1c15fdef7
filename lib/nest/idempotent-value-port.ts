import type { ReplyPort } from '../idempotency/run-once.js';
import { bodyValue, storeBody } from '../idempotency/stored-body.js';
import {
  tombstone,
  type ReplayableReply,
  type StoredError,
  type StoredReply,
} from '../idempotency/stored-reply.js';
import { Emissions } from './emissions.js';
import { restoreHttpError, storeHttpError } from './http-reply-error.js';

const OK = 200;

/** Stores and replays plain values, as JSON: of messages, GraphQL fields, services, cron jobs and queue processors. */
export class ValuePort implements ReplyPort {
  constructor(private readonly maxBodyBytes: number) {}

  status(): number {
    return OK;
  }

  store(value: unknown): { reply: StoredReply; value: unknown } {
    if (value instanceof Emissions) return { reply: tombstone('several values were sent one by one'), value };
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
