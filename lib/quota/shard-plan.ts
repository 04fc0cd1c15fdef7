import { LockKeyError, type ConfigFault } from '../errors.js';
import { hasHashTag, type LockKey } from '../lock/lock-key.js';

/** More would make every look at all of them long, and help no Cluster. */
const MOST_SHARDS = 128;

/** Which quotas are spread over how many keys. */
export interface ShardPlan {
  /** By the whole key. */
  readonly exact: ReadonlyMap<string, number>;
  /** By what a key begins with, the longest first. */
  readonly prefixes: ReadonlyArray<readonly [prefix: string, shards: number]>;
}

export const NO_SHARDS: ShardPlan = { exact: new Map(), prefixes: [] };

/** Reads the option, e.g. `{ 'quota:m42': 8, 'quota:hot:*': 4 }`; faults are added to the list. */
export function collectShardPlan(value: unknown, path: string, faults: ConfigFault[]): ShardPlan {
  if (value === undefined) return NO_SHARDS;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    faults.push({ path, message: "is an object of keys and numbers, e.g. { 'quota:m42': 8 }" });
    return NO_SHARDS;
  }
  const exact = new Map<string, number>();
  const prefixes: Array<readonly [string, number]> = [];
  for (const [pattern, shards] of Object.entries(value) as Array<[string, unknown]>) {
    const at = `${path}[${JSON.stringify(pattern)}]`;
    if (/[{}]/.test(pattern)) {
      faults.push({
        path: at,
        message: 'has braces: a hash tag would put all shards in one slot; leave it out',
      });
    }
    if (pattern === '' || pattern.slice(0, -1).includes('*')) {
      faults.push({ path: at, message: "is a key, or the beginning of keys with one '*' behind it" });
    }
    if (!Number.isInteger(shards) || (shards as number) < 2 || (shards as number) > MOST_SHARDS) {
      faults.push({ path: at, message: `is a whole number from 2 to ${MOST_SHARDS}` });
      continue;
    }
    if (pattern.endsWith('*')) prefixes.push([pattern.slice(0, -1), shards as number]);
    else exact.set(pattern, shards as number);
  }
  prefixes.sort(([a], [b]) => b.length - a.length);
  return { exact, prefixes };
}

/** A quota that is spread, and its shards' keys. */
export interface ShardedKey extends LockKey {
  readonly shards: readonly string[];
}

/**
 * The shards of a key, or undefined where it is not spread.
 *
 * @throws LockKeyError when its shards would all lie in one slot.
 */
export function shardsOf({ exact, prefixes }: ShardPlan, key: LockKey): ShardedKey | undefined {
  const { name, full } = key;
  const count = exact.get(name) ?? prefixes.find(([prefix]) => name.startsWith(prefix))?.[1];
  if (count === undefined) return undefined;
  if (hasHashTag(full)) {
    throw new LockKeyError(
      `The quota ${JSON.stringify(full)} is spread over shards, but its hash tag would put them all in one slot: leave the braces out.`,
      { keys: name },
    );
  }
  return { name, full, shards: Array.from({ length: count }, (_, shard) => `${full}:${shard}`) };
}

/** Where an operation begins. The same in every process and every version: its record stands there. */
export function homeOf(operationId: string, shards: number): number {
  // FNV-1a, and the last mixing of MurmurHash3: ids that count differ in few bits
  let hash = 0x811c9dc5;
  for (let at = 0; at < operationId.length; at++) {
    hash = Math.imul(hash ^ operationId.charCodeAt(at), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) % shards;
}

/** The whole, in shares that differ by 1 at most. */
export function evenShares(amount: number, shards: number): number[] {
  const least = Math.floor(amount / shards);
  const larger = amount - least * shards;
  return Array.from({ length: shards }, (_, shard) => least + (shard < larger ? 1 : 0));
}
