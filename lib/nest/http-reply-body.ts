import { StreamableFile } from '@nestjs/common';
import { Readable } from 'node:stream';
import { bodyValue, storeBody, type NotStorable } from '../idempotency/stored-body.js';
import type { StoredBody } from '../idempotency/stored-reply.js';

/**
 * What is stored for the value of a handler, and the value that is sent: a file's bytes can be read only once,
 * so the first caller gets a new file of the same bytes.
 */
export function storeHttpBody(
  value: unknown,
  maxBytes: number,
): { body: StoredBody | NotStorable; value: unknown } {
  if (!(value instanceof StreamableFile)) return { body: storeBody(value, maxBytes), value };
  const { type, disposition, length } = value.getHeaders();
  const held = bytesHeld(value);
  if (held === undefined) return { body: { reason: 'a file that is streamed can be read once only' }, value };
  if (held > maxBytes) {
    return { body: { reason: `the file has ${held} bytes, more than maxBodyBytes (${maxBytes})` }, value };
  }
  const bytes = (value.getStream().read() as Buffer | null) ?? Buffer.alloc(0);
  const about = {
    ...(type === undefined ? {} : { type }),
    ...(disposition === undefined ? {} : { disposition }),
  };
  return {
    body: { kind: 'file', bytes, ...about },
    value: new StreamableFile(bytes, { ...about, ...(length === undefined ? {} : { length }) }),
  };
}

/** The value that gives the first reply's bytes when it goes through the same serialiser. */
export function httpBodyValue(body: StoredBody): unknown {
  switch (body.kind) {
    case 'json':
      return body.boxed ? new BoxedJson(bodyValue(body)) : bodyValue(body);
    case 'file': {
      const { bytes, type, disposition } = body;
      return new StreamableFile(bytes, {
        ...(type === undefined ? {} : { type }),
        ...(disposition === undefined ? {} : { disposition }),
      });
    }
    default:
      return bodyValue(body);
  }
}

/**
 * How many bytes a file made from a Buffer holds; undefined for one that reads from somewhere. Nest keeps a
 * Buffer in a bare `Readable` that was never given a way to read more, and sets the length.
 */
function bytesHeld(file: StreamableFile): number | undefined {
  const stream = file.getStream();
  const held =
    stream instanceof Readable &&
    stream._read === Readable.prototype._read &&
    !stream.readableObjectMode &&
    !stream.readableFlowing &&
    !stream.destroyed &&
    !Readable.isDisturbed(stream);
  return held && stream.readableLength === file.getHeaders().length ? stream.readableLength : undefined;
}

/** An object whose JSON is no object (a Date, a Decimal): as a plain string it would be sent as text. */
class BoxedJson {
  readonly #json: unknown;

  constructor(json: unknown) {
    this.#json = json;
  }

  toJSON(): unknown {
    return this.#json;
  }

  /** A response schema asks for the text. */
  toString(): string {
    return String(this.#json);
  }
}
