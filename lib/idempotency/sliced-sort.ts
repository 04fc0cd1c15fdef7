/** So many comparisons are one step of the merge. */
const MERGED_PER_STEP = 2_000;

/**
 * Sorts texts as `sort()` does, in steps that each take little time: pieces are sorted, then merged by twos. Nothing
 * is yielded; the sorted list is returned.
 */
export function* sortInSlices(texts: readonly string[], pieceLength: number): Generator<undefined, string[]> {
  let pieces: string[][] = [];
  for (let at = 0; at < texts.length; at += pieceLength) {
    pieces.push(texts.slice(at, at + pieceLength).sort());
    yield;
  }
  while (pieces.length > 1) {
    const merged: string[][] = [];
    for (let at = 0; at < pieces.length; at += 2) {
      const other = pieces[at + 1];
      merged.push(other ? yield* merge(pieces[at]!, other) : pieces[at]!);
    }
    pieces = merged;
  }
  return pieces[0] ?? [];
}

function* merge(one: readonly string[], other: readonly string[]): Generator<undefined, string[]> {
  const merged: string[] = [];
  let at = 0;
  let otherAt = 0;
  while (at < one.length || otherAt < other.length) {
    const fromOne = otherAt === other.length || (at < one.length && one[at]! <= other[otherAt]!);
    merged.push(fromOne ? one[at++]! : other[otherAt++]!);
    if (merged.length % MERGED_PER_STEP === 0) yield;
  }
  return merged;
}
