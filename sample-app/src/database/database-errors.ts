/** Reads what a driver's error means; the two databases say it in different words. */

/** The embedded database's codes (`SQLITE_…`) and Postgres' SQLSTATE both stand in `code`. */
function codesOf(error: unknown): string[] {
  if (typeof error !== 'object' || error === null) return [];
  const { code, extendedCode } = error as { code?: unknown; extendedCode?: unknown };
  return [code, extendedCode].filter((value): value is string => typeof value === 'string');
}

/** A primary key or unique constraint refused the row. */
export function isDuplicate(error: unknown): boolean {
  return codesOf(error).some(
    (code) =>
      code === 'SQLITE_CONSTRAINT_PRIMARYKEY' || code === 'SQLITE_CONSTRAINT_UNIQUE' || code === '23505',
  );
}

/** A check constraint refused the row. */
export function isCheckViolation(error: unknown): boolean {
  return codesOf(error).some((code) => code === 'SQLITE_CONSTRAINT_CHECK' || code === '23514');
}

/** SQLite: another process is writing, and nothing of this statement was applied. */
export function isBusy(error: unknown): boolean {
  return codesOf(error).some((code) => code.startsWith('SQLITE_BUSY') || code === 'SQLITE_LOCKED');
}

/** Postgres: a serialisation failure or a deadlock ended this transaction; nothing of it was applied. */
export function isConflict(error: unknown): boolean {
  return codesOf(error).some((code) => code === '40001' || code === '40P01');
}
