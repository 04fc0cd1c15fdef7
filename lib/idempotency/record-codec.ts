import { hash } from 'node:crypto';
import type { StoredBody, StoredReply } from './stored-reply.js';

/**
 * The payload of a finished record:
 *
 *     1 byte   version of this layout
 *     1 byte   codec of what follows: 1 = JSON head and raw body, as below; 2 = a whole payload of codec 1, as the
 *              application's own codec made it
 *     8 bytes  the beginning of the SHA-256 of what follows: a damaged record must be seen as one
 *     4 bytes  length of the head
 *     head     JSON: the reply without its body's bytes
 *     body     the bytes
 */
const VERSION = 1;
const CODEC_JSON_HEAD = 1;
const CODEC_OF_APPLICATION = 2;
const CONTENT_AT = 2;
const DIGEST_AT = 2;
const DIGEST_BYTES = 8;
const LENGTH_AT = DIGEST_AT + DIGEST_BYTES;
const HEAD_AT = LENGTH_AT + 4;

type Head =
  Exclude<StoredReply, { kind: 'value' }> | (Omit<ValueOf<StoredReply>, 'body'> & { body: BodyHead });
type ValueOf<R> = Extract<R, { kind: 'value' }>;
type BodyHead = { kind: StoredBody['kind'] } & Record<string, unknown>;

/** Writes a reply as a payload. */
export function encodeReply(reply: StoredReply): Buffer {
  const { head, bytes } = split(reply);
  const headBytes = Buffer.from(JSON.stringify(head));
  const payload = Buffer.alloc(HEAD_AT + headBytes.length + bytes.length);
  payload[0] = VERSION;
  payload[1] = CODEC_JSON_HEAD;
  payload.writeUInt32BE(headBytes.length, LENGTH_AT);
  headBytes.copy(payload, HEAD_AT);
  bytes.copy(payload, HEAD_AT + headBytes.length);
  digestOf(payload).copy(payload, DIGEST_AT);
  return payload;
}

/**
 * Reads a payload.
 *
 * @returns null when it is damaged or of a version that this code does not know: the request counts as done all
 *   the same, and its reply as lost.
 */
export function decodeReply(payload: Buffer): StoredReply | null {
  if (payload.length < HEAD_AT || payload[0] !== VERSION || payload[1] !== CODEC_JSON_HEAD) return null;
  if (!digestOf(payload).equals(payload.subarray(DIGEST_AT, LENGTH_AT))) return null;
  const bodyAt = HEAD_AT + payload.readUInt32BE(LENGTH_AT);
  if (bodyAt > payload.length) return null;
  try {
    return join(JSON.parse(payload.toString('utf8', HEAD_AT, bodyAt)) as Head, payload.subarray(bodyAt));
  } catch {
    return null;
  }
}

/** Whether the application's codec made what stands in a payload. */
export function isSealed(payload: Buffer): boolean {
  return payload.length >= CONTENT_AT && payload[0] === VERSION && payload[1] === CODEC_OF_APPLICATION;
}

/** A payload of what the application's codec made. */
export function sealed(content: Buffer): Buffer {
  return Buffer.concat([Buffer.of(VERSION, CODEC_OF_APPLICATION), content]);
}

/** What the application's codec made. */
export function unsealed(payload: Buffer): Buffer {
  return payload.subarray(CONTENT_AT);
}

/**
 * Whether a repeat would get a reply. One that went through a codec counts: only its codec can tell, and a reply
 * that could not be encoded is a tombstone.
 */
export function isReplayable(payload: Buffer): boolean {
  if (isSealed(payload)) return true;
  const reply = decodeReply(payload);
  return reply !== null && reply.kind !== 'tombstone';
}

function digestOf(payload: Buffer): Buffer {
  return hash('sha256', payload.subarray(LENGTH_AT), 'buffer').subarray(0, DIGEST_BYTES);
}

/** The body's bytes stand behind the head: JSON inside JSON would be escaped twice. */
function split(reply: StoredReply): { head: Head; bytes: Buffer } {
  if (reply.kind !== 'value') return { head: reply, bytes: Buffer.alloc(0) };
  const { body, ...rest } = reply;
  switch (body.kind) {
    case 'json': {
      const { json, ...about } = body;
      return { head: { ...rest, body: about }, bytes: Buffer.from(json) };
    }
    case 'bytes':
    case 'file': {
      const { bytes, ...about } = body;
      return { head: { ...rest, body: about }, bytes };
    }
    default:
      return { head: { ...rest, body }, bytes: Buffer.alloc(0) };
  }
}

function join(head: Head, bytes: Buffer): StoredReply | null {
  if (head.kind === 'tombstone' || head.kind === 'error') return head;
  if (head.kind !== 'value') return null;
  switch (head.body.kind) {
    case 'json':
      return { ...head, body: { ...head.body, json: bytes.toString('utf8') } as StoredBody };
    case 'bytes':
    case 'file':
      return { ...head, body: { ...head.body, bytes } as StoredBody };
    case 'undefined':
    case 'number':
      return { ...head, body: head.body as StoredBody };
    default:
      // written by a later version that kept the layout
      return null;
  }
}
