import { createHash } from 'node:crypto';

/** The longest key that is kept as it is, in bytes. */
export const MAX_KEY_BYTES = 512;

/**
 * Stands before the hash. `<` and `>` never stand in a filled template, so no caller can write a short key
 * that equals the shortened form of another's.
 */
const MARK = '<sha256>';
const TAIL_BYTES = MARK.length + 64;

/**
 * Keeps a key of at most {@link MAX_KEY_BYTES} bytes; of a longer one the rest is replaced by its SHA-256. A
 * hash tag that the cut would open is closed again, so that the key keeps a slot for its companions.
 */
export function shortenKey(key: string): string {
  const bytes = Buffer.from(key);
  if (bytes.length <= MAX_KEY_BYTES) return key;
  // One byte is kept for the brace that may have to be closed.
  const head = wholeCharacters(bytes, MAX_KEY_BYTES - TAIL_BYTES - 1);
  const hash = createHash('sha256').update(bytes.subarray(head.length)).digest('hex');
  const text = head.toString();
  const open = text.indexOf('{');
  const cutInsideTag = open >= 0 && text.indexOf('}', open) < 0;
  return `${text}${MARK}${hash}${cutInsideTag ? '}' : ''}`;
}

function wholeCharacters(bytes: Buffer, length: number): Buffer {
  let end = length;
  // A UTF-8 continuation byte is 10xxxxxx: do not cut inside a character.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end);
}
