import type { StoredBody } from './stored-reply.js';

/** A value that cannot be kept, and why. */
export interface NotStorable {
  reason: string;
}

/**
 * Turns a value into what is stored. Nothing is consumed or changed: the first caller still gets the value.
 *
 * @param maxBytes the largest body that is kept.
 */
export function storeBody(value: unknown, maxBytes: number): StoredBody | NotStorable {
  switch (typeof value) {
    case 'undefined':
      return { kind: 'undefined' };
    case 'bigint':
    case 'function':
    case 'symbol':
      return { reason: `JSON cannot express a ${typeof value}` };
    case 'number':
      return Number.isFinite(value)
        ? { kind: 'json', json: JSON.stringify(value) }
        : { kind: 'number', text: String(value) };
    case 'string':
      return within(maxBytes, Buffer.byteLength(value)) ?? { kind: 'json', json: JSON.stringify(value) };
    case 'boolean':
      return { kind: 'json', json: String(value) };
    default:
      return value === null ? { kind: 'json', json: 'null' } : storeObject(value as object, maxBytes);
  }
}

/**
 * The value of a stored body. A file comes back as its bytes.
 *
 * @throws SyntaxError when the stored JSON is damaged.
 */
export function bodyValue(body: StoredBody): unknown {
  switch (body.kind) {
    case 'undefined':
      return undefined;
    case 'json':
      return JSON.parse(body.json);
    case 'number':
      return Number(body.text);
    case 'bytes':
      return body.view === 'Buffer' ? body.bytes : new Uint8Array(body.bytes);
    case 'file':
      return body.bytes;
  }
}

function storeObject(value: object, maxBytes: number): StoredBody | NotStorable {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return storeBytes(value, maxBytes);
  if (isStream(value)) return { reason: 'a stream can be read once only' };
  if (value instanceof Error)
    return { reason: 'an Error as a value is answered by the platform in its own way' };
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    return { reason: `JSON cannot express it: ${error instanceof Error ? error.message : String(error)}` };
  }
  if (json === undefined) return { reason: 'JSON cannot express it' };
  const boxed = !json.startsWith('{') && !json.startsWith('[');
  return within(maxBytes, Buffer.byteLength(json)) ?? { kind: 'json', json, ...(boxed ? { boxed } : {}) };
}

function storeBytes(value: ArrayBufferView | ArrayBuffer, maxBytes: number): StoredBody | NotStorable {
  if (!(value instanceof Uint8Array))
    return { reason: 'of binary values only Buffer and Uint8Array are kept' };
  const view = Buffer.isBuffer(value) ? 'Buffer' : 'Uint8Array';
  return within(maxBytes, value.byteLength) ?? { kind: 'bytes', bytes: Buffer.from(value), view };
}

/** What a platform would send piece by piece: Node and web streams, async iterables, web responses. */
function isStream(value: object): boolean {
  const like = value as { pipe?: unknown; getReader?: unknown; [Symbol.asyncIterator]?: unknown };
  return (
    typeof like.pipe === 'function' ||
    typeof like.getReader === 'function' ||
    typeof like[Symbol.asyncIterator] === 'function' ||
    ['[object Response]', '[object Blob]', '[object File]'].includes(Object.prototype.toString.call(value))
  );
}

function within(maxBytes: number, bytes: number): NotStorable | undefined {
  return bytes > maxBytes
    ? { reason: `the body has ${bytes} bytes, more than maxBodyBytes (${maxBytes})` }
    : undefined;
}
