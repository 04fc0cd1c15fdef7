/**
 * The names of everything this module keeps in Redis. `L` is the key itself; its companions carry a hash tag
 * so that they lie in L's Cluster slot.
 */

const SLOTS = 16_384;

/** The hash tag of a key as Redis Cluster finds it, or undefined when the whole key is hashed. */
export function hashTag(key: string): string | undefined {
  const open = key.indexOf('{');
  if (open < 0) return undefined;
  const close = key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : undefined;
}

/** What the names of a key's companions begin with: the key when it has a hash tag, else `{key}`. */
export function companionBase(key: string): string {
  return hashTag(key) === undefined ? `{${key}}` : key;
}

/** The highest fencing token handed out. */
export function fenceKey(key: string): string {
  return `${companionBase(key)}${FENCE_SUFFIX}`;
}

/** The processes that wait: a sorted set. */
export function queueKey(key: string): string {
  return `${companionBase(key)}:queue`;
}

/** The quota's operations that were carried out in one period of `periodMs`; with an id of the caller's. */
export function operationsKey(key: string, periodMs: number, period: number): string {
  return `${companionBase(key)}:ops:${periodMs}:${period}`;
}

/** What the senders of calls without an operation id sent last, in one period. */
export function callsKey(key: string, period: number): string {
  return `${companionBase(key)}:calls:${period}`;
}

export const FENCE_SUFFIX = ':fence';

/** The key that a fence companion belongs to, or undefined when the name is none of ours. */
export function keyOfFence(name: string): string | undefined {
  if (!name.endsWith(FENCE_SUFFIX)) return undefined;
  const base = name.slice(0, -FENCE_SUFFIX.length);
  const key = base.startsWith('{') && base.endsWith('}') ? base.slice(1, -1) : base;
  return fenceKey(key) === name ? key : undefined;
}

/**
 * The Cluster slot of a key.
 *
 * @see https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
 */
export function slotOf(key: string): number {
  let crc = 0;
  // CRC16-XMODEM over the UTF-8 bytes
  for (const byte of Buffer.from(hashTag(key) ?? key)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return crc % SLOTS;
}

/** Makes text literal in a Redis glob. */
export function escapeGlob(text: string): string {
  return text.replace(/[\\*?[\]]/g, '\\$&');
}

/** A Redis glob as a regular expression: `*`, `?`, `[abc]`, `[^a-z]`, `\x`. */
export function globToRegExp(glob: string): RegExp {
  const literal = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
  let source = '';
  for (let at = 0; at < glob.length; at++) {
    const char = glob[at]!;
    const close = char === '[' ? glob.indexOf(']', at + 2) : -1;
    if (char === '*') source += '.*';
    else if (char === '?') source += '.';
    else if (char === '\\' && at + 1 < glob.length) source += literal(glob[++at]!);
    else if (close > 0) {
      const negated = glob[at + 1] === '^';
      const members = glob.slice(at + (negated ? 2 : 1), close);
      source += `[${negated ? '^' : ''}${members.replace(/[\\\][^]/g, '\\$&')}]`;
      at = close;
    } else source += literal(char);
  }
  return new RegExp(`^(?:${source})$`, 's');
}
