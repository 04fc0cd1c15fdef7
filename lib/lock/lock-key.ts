import { LockKeyError } from '../errors.js';

/** A key as the caller names it, and as the store does (with the module's prefix). */
export interface LockKey {
  readonly name: string;
  readonly full: string;
}

/**
 * Checks one key and adds the prefix.
 *
 * @throws LockKeyError for what is no string, empty, not well-formed Unicode (two such strings could become
 *   one key in UTF-8), or has braces that form no hash tag (its companions would lie in another slot).
 */
export function lockKey(name: unknown, prefix = ''): LockKey {
  if (typeof name !== 'string') {
    throw new LockKeyError(`A lock key is a non-empty string, not ${name === null ? 'null' : typeof name}.`);
  }
  if (name === '')
    throw new LockKeyError('A lock key is a non-empty string; this one is empty.', { keys: '' });
  if (!name.isWellFormed()) {
    throw new LockKeyError(`The key ${JSON.stringify(name)} is not well-formed Unicode.`, { keys: name });
  }
  const full = prefix + name;
  if ((full.includes('{') || full.includes('}')) && !hasHashTag(full)) {
    throw new LockKeyError(
      `The key ${JSON.stringify(full)} has braces that form no Redis Cluster hash tag: write {tag} with something in it, or no braces.`,
      { keys: name },
    );
  }
  return { name, full };
}

/**
 * Whether Redis Cluster would hash only a part of the key.
 *
 * @see https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
 */
export function hasHashTag(key: string): boolean {
  const open = key.indexOf('{');
  return open >= 0 && key.indexOf('}', open) > open + 1;
}

/**
 * Checks one key or several: duplicates removed, sorted, so that no order of requests can deadlock.
 *
 * @throws LockKeyError also for an empty list.
 */
export function lockKeys(names: unknown, prefix = ''): readonly LockKey[] {
  if (!Array.isArray(names)) return [lockKey(names, prefix)];
  if (names.length === 0) throw new LockKeyError('No lock key was given: the list is empty.');
  const unique = new Map<string, LockKey>();
  for (const name of names as unknown[]) {
    const key = lockKey(name, prefix);
    unique.set(key.full, key);
  }
  return [...unique.values()].sort((a, b) => (a.full < b.full ? -1 : 1));
}
