import { bodyValue, storeBody } from './stored-body.js';
import {
  tombstone,
  type StoredBody,
  type StoredError,
  type StoredReply,
  type StoredValue,
} from './stored-reply.js';

/** What a redacted reply became, and why the reply itself could not be kept. */
export interface Redacted {
  reply: StoredReply;
  error?: Error;
}

/**
 * Lets the application change what is kept of a reply. It gets a copy, as a repeat would get it, so that the first
 * caller's reply stays whole; a function that returns nothing has changed the copy. One that fails leaves a tombstone:
 * what it did not redact is not stored.
 */
export function redactionBy(
  beforeStore: (value: unknown) => unknown,
  maxBytes: number,
): (reply: StoredReply) => Promise<Redacted> {
  return (reply) => redacted(reply, beforeStore, maxBytes);
}

async function redacted(
  reply: StoredReply,
  beforeStore: (value: unknown) => unknown,
  maxBytes: number,
): Promise<Redacted> {
  if (reply.kind === 'tombstone') return { reply };
  try {
    const copy = reply.kind === 'value' ? bodyValue(reply.body) : (JSON.parse(reply.response) as unknown);
    const given = await beforeStore(copy);
    const body = storeBody(given === undefined ? copy : given, maxBytes);
    if (!('kind' in body)) return { reply: tombstone(body.reason) };
    return { reply: reply.kind === 'value' ? withBody(reply, body) : withResponse(reply, body) };
  } catch (cause) {
    return {
      reply: tombstone('beforeStore failed'),
      error: new Error('beforeStore() failed: the reply was not kept, repeats are refused', { cause }),
    };
  }
}

/** What was not changed stays in the form that gives the same bytes. */
function withBody(reply: StoredValue, body: StoredBody): StoredValue {
  const { body: before } = reply;
  if (before.kind === 'json' && body.kind === 'json') {
    return { ...reply, body: before.json === body.json ? before : boxedAs(before, body) };
  }
  if (before.kind === 'file' && body.kind === 'bytes')
    return { ...reply, body: { ...before, bytes: body.bytes } };
  return { ...reply, body };
}

/** The text of a Date stays what an object gave: as a plain string it would be sent as text. */
function boxedAs<B extends Extract<StoredBody, { kind: 'json' }>>(before: B, body: B): B {
  return before.boxed && /^["0-9-]/.test(body.json) ? { ...body, boxed: true } : body;
}

/** An error's message and own fields tell the same as its response: they go with what was taken out of it. */
function withResponse(error: StoredError, body: StoredBody): StoredReply {
  if (body.kind !== 'json') return tombstone('the response of an error is JSON');
  if (body.json === error.response) return error;
  const { fields: _fields, ...rest } = error;
  const response = JSON.parse(body.json) as { message?: unknown } | string | null;
  const said = typeof response === 'string' ? response : response?.message;
  return { ...rest, response: body.json, message: typeof said === 'string' ? said : error.name };
}
