import { IdempotencyKeyError } from '../errors.js';

/** The longest key that is accepted. */
export const LONGEST_HEADER_KEY = 255;

const VISIBLE_ASCII = /^[\x21-\x7e]+$/;
const SF_STRING = /^"((?:[^"\\]|\\["\\])*)"$/;

/**
 * Reads the idempotency key from the values of its header.
 *
 * The draft makes it a structured-field string (`"8e03978e"`), most clients send it bare: both name one key.
 *
 * @returns undefined when there is none: an empty value is none.
 * @throws IdempotencyKeyError when it was sent twice, is too long, or is not visible ASCII.
 * @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
 * @see https://www.rfc-editor.org/rfc/rfc9651#name-strings
 */
export function readHeaderKey(header: string, values: readonly string[]): string | undefined {
  if (values.length === 0) return undefined;
  if (values.length > 1)
    throw new IdempotencyKeyError(`The header ${header} was sent ${values.length} times.`);
  const text = values[0]!.trim();
  const key = text.startsWith('"') ? unquote(header, text) : text;
  if (key === '') return undefined;
  if (key.length > LONGEST_HEADER_KEY) {
    throw new IdempotencyKeyError(
      `The header ${header} has ${key.length} characters: at most ${LONGEST_HEADER_KEY} are allowed.`,
    );
  }
  if (!VISIBLE_ASCII.test(key)) {
    throw new IdempotencyKeyError(
      `The header ${header} may hold visible ASCII characters only, and no spaces.`,
    );
  }
  return key;
}

function unquote(header: string, text: string): string {
  const inner = SF_STRING.exec(text)?.[1];
  if (inner === undefined) {
    throw new IdempotencyKeyError(`The header ${header} begins with a quote but is no quoted string.`);
  }
  return inner.replace(/\\(["\\])/g, '$1');
}
