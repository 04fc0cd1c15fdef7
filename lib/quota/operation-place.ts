/**
 * What stands at the home of an operation on a quota that is spread, beside the records that the store knows itself.
 * Every change raises the generation, so that no record ever comes again.
 */
export type OperationPlace =
  /** Nothing yet: only the home may grant it. */
  | { kind: 'none' }
  /** Only this shard may grant it, and only to requests of this generation. */
  | { kind: 'at'; shard: number; generation: number }
  /** It is gathered from several shards, by one session. */
  | { kind: 'gather'; generation: number; session: string }
  /** It was granted, from these shards. */
  | { kind: 'gathered'; amount: number; remaining: number; generation: number; shards: readonly number[] }
  /** A refund returns it to these shards. */
  | { kind: 'returning'; amount: number; generation: number; shards: readonly number[] }
  /** A record that the store knows itself: ask it. */
  | { kind: 'settled' };

export function parsePlace(text: string): OperationPlace {
  if (text === '') return { kind: 'none' };
  const [kind, ...fields] = text.split(':') as [string, ...string[]];
  const [first, second, third] = fields.map(Number) as [number, number, number];
  const shards = (list = ''): number[] => list.split(',').map(Number);
  switch (kind) {
    case 'at':
      return { kind, shard: first, generation: second };
    case 'gather':
      return { kind, generation: first, session: fields[1]! };
    case 'gathered':
      return { kind, amount: first, remaining: second, generation: third, shards: shards(fields[3]) };
    case 'returning':
      return { kind, amount: first, generation: second, shards: shards(fields[2]) };
    default:
      return { kind: 'settled' };
  }
}

export function formatPlace(place: Exclude<OperationPlace, { kind: 'none' | 'settled' }>): string {
  switch (place.kind) {
    case 'at':
      return `at:${place.shard}:${place.generation}`;
    case 'gather':
      return `gather:${place.generation}:${place.session}`;
    case 'gathered':
      return `gathered:${place.amount}:${place.remaining}:${place.generation}:${place.shards.join(',')}`;
    case 'returning':
      return `returning:${place.amount}:${place.generation}:${place.shards.join(',')}`;
  }
}

/** The highest generation that was ever used for it. */
export function generationOf(place: OperationPlace): number {
  return 'generation' in place ? place.generation : 0;
}
