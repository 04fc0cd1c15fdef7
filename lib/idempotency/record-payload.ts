import type { IdempotencyCodec } from './idempotency.js';
import { decodeReply, encodeReply, isSealed, sealed, unsealed } from './record-codec.js';
import type { Redacted } from './before-store.js';
import { outsideCallChain } from '../outside-call-chain.js';
import { tombstone, type ReplayableReply, type StoredReply } from './stored-reply.js';

/** The application's functions have so long before the reply counts as one that cannot be kept. */
const PACK_WITHIN_MS = 10_000;

/** What is written, and why the reply itself could not be. */
export interface Packed {
  payload: Buffer;
  error?: Error;
}

/** The reply that a repeat is given; null, perhaps with the reason, when there is none. */
export interface Unpacked {
  reply: ReplayableReply | null;
  error?: Error;
}

/**
 * Turns replies into payloads and back, through the application's codec where it has one. A codec that fails never
 * lets the handler run again: what cannot be encoded leaves a tombstone, what cannot be decoded is not replayed.
 */
export class RecordPayload {
  constructor(
    private readonly recordKey: string,
    private readonly codec: IdempotencyCodec | undefined,
  ) {}

  pack(reply: StoredReply): Packed | Promise<Packed> {
    const payload = encodeReply(reply);
    // a tombstone says nothing of the request, and is to be known as one without the codec
    if (!this.codec || reply.kind === 'tombstone') return { payload };
    return this.#seal(this.codec, payload);
  }

  unpack(payload: Buffer): Unpacked | Promise<Unpacked> {
    return isSealed(payload) ? this.#unseal(payload) : unpackPlain(payload);
  }

  async #seal(codec: IdempotencyCodec, payload: Buffer): Promise<Packed> {
    try {
      return { payload: sealed(bytesOf(await codec.encode(payload, this.recordKey), 'encode')) };
    } catch (cause) {
      const error = new Error('codec.encode() failed: the reply was not kept, repeats are refused', {
        cause,
      });
      return { payload: encodeReply(tombstone('the codec could not encode the reply')), error };
    }
  }

  async #unseal(payload: Buffer): Promise<Unpacked> {
    if (!this.codec)
      return { reply: null, error: new Error('the reply was stored with a codec: give it here too') };
    try {
      const plain = bytesOf(await this.codec.decode(unsealed(payload), this.recordKey), 'decode');
      const unpacked = isSealed(plain) ? { reply: null } : unpackPlain(plain);
      if (unpacked.reply === null) throw new Error('what it gave is no stored reply');
      return unpacked;
    } catch (cause) {
      return {
        reply: null,
        error: new Error('codec.decode() failed: the stored reply cannot be read', { cause }),
      };
    }
  }
}

function unpackPlain(payload: Buffer): Unpacked {
  const reply = decodeReply(payload);
  return { reply: reply === null || reply.kind === 'tombstone' ? null : reply };
}

function bytesOf(value: unknown, what: string): Buffer {
  if (Buffer.isBuffer(value)) return value;
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  throw new TypeError(`codec.${what}() returns a Buffer or a Uint8Array, or a promise of one`);
}

/**
 * Redacts a reply and packs it. Neither may hold the record for ever: what takes longer than 10 s leaves a tombstone.
 * Never rejects.
 */
export function packWithin(
  payloads: RecordPayload,
  reply: StoredReply,
  redact: ((reply: StoredReply) => Promise<Redacted>) | undefined,
): Packed | Promise<Packed> {
  const packed = redact ? redactAndPack(payloads, reply, redact) : payloads.pack(reply);
  return packed instanceof Promise ? within(packed) : packed;
}

async function redactAndPack(
  payloads: RecordPayload,
  whole: StoredReply,
  redact: (reply: StoredReply) => Promise<Redacted>,
): Promise<Packed> {
  const { reply, error } = await redact(whole);
  const packed = await payloads.pack(reply);
  return error ? { ...packed, error } : packed;
}

function within(packed: Promise<Packed>): Promise<Packed> {
  return new Promise((resolve) => {
    const late = (): void => {
      const error = new Error(
        `beforeStore() or codec.encode() took longer than ${PACK_WITHIN_MS} ms: the reply was not kept, repeats are refused`,
      );
      resolve({ payload: encodeReply(tombstone('it took too long to prepare the reply')), error });
    };
    const timer = outsideCallChain(() => setTimeout(late, PACK_WITHIN_MS));
    timer.unref();
    packed.finally(() => clearTimeout(timer)).then(resolve, late);
  });
}
