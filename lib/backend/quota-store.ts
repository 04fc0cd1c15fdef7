/** One call on a quota. An id names an operation; ids of grants and of deductions are kept apart. */
export type QuotaCall =
  | { kind: 'deduct' | 'grant'; amount: number; operationId?: string }
  /** Gives back what the deduction of this id took. */
  | { kind: 'refund'; operationId: string };

/** Calls on one quota that are carried out in one step of the store, in order, each as if alone. */
export interface QuotaBatch {
  key: string;
  calls: readonly QuotaCall[];
  /** Who sends: new for each start of a process. It has one batch of a key under way, never two. */
  sender: string;
  /**
   * Rises with each batch of the sender, and is the same at each retry. What a batch did for its calls without an
   * operation id is known by it for two minutes, and until the sender's next: a late copy of an older one does nothing.
   */
  number: number;
  /** The sender's clock when the batch was made, in milliseconds since 1970; the same at each retry. */
  madeAt: number;
  /** How long a granted operation is known by its id, in milliseconds. */
  operationTtlMs: number;
  /** A shard: every increase also raises its version, see {@link ShardState}. */
  isShard: boolean;
}

/** What became of one call. */
export type QuotaReply =
  | { status: 'granted'; amount: number; remaining: number; replayed: boolean }
  | { status: 'exceeded'; remaining: number }
  | { status: 'notFound' }
  /** The id was used with another amount. */
  | { status: 'otherAmount'; amount: number }
  /** A deduction whose operation is refunded; amount 0 when it had taken nothing before that. */
  | { status: 'refunded'; amount: number }
  /** A refund. */
  | { status: 'givenBack'; amount: number; remaining: number; replayed: boolean }
  /** A refund of an operation that took nothing (from now on it never will). */
  | { status: 'unknown' }
  /** The operation's place is another, see {@link QuotaStore.move}; nothing was done. */
  | { status: 'elsewhere'; place: string }
  /** The stored number is none, or would pass 2^53 - 1; nothing was done. */
  | { status: 'unusable'; why: 'noInteger' | 'tooLarge' }
  /** A later batch of this sender came first: nothing was done. Only a late copy is told so. */
  | { status: 'overtaken' };

/** An operation, as it is known to one shard. */
export interface OperationRef {
  operationId: string;
  operationTtlMs: number;
}

/** A shard at one moment. */
export interface ShardState {
  remaining: number;
  /** Rises with every increase: equal at two looks, there was none in between. */
  version: number;
  /** What {@link QuotaStore.initShard} was told first. */
  plan?: string;
}

/** What a shard says to a request for the whole amount. */
export type ShardReply = Extract<
  QuotaReply,
  { status: 'granted' | 'otherAmount' | 'refunded' | 'unusable' | 'exceeded' }
>;

/** What a shard says when an operation is to give back what it holds there; `nothing`: it holds nothing (any more). */
export type GiveBackReply =
  | Extract<QuotaReply, { status: 'givenBack' | 'unusable' }>
  | { status: 'partReturned'; amount: number }
  | { status: 'nothing' };

/**
 * Numbers that are taken from and added to.
 *
 * The second half serves quotas that are spread over several keys. An operation with an id has a home shard, and the
 * record there names its place: who alone may grant it now, with a generation that rises with every move. A request
 * to a shard carries the generation; a shard remembers the highest that it refused for an operation, and refuses
 * that and lower. So whoever asks late, with a place that was read before a move, is refused.
 */
export interface QuotaStore {
  /** Sets the quota where there is none. */
  init(key: string, amount: number, timeoutMs: number): Promise<boolean>;
  /**
   * Carries the calls out, in order: one that cannot be met does not stop the next. One reply for each. Granted
   * operations are kept under their ids; refusals are not. A refund of an unknown operation closes its id.
   */
  carryOut(batch: QuotaBatch, timeoutMs: number): Promise<QuotaReply[]>;
  remaining(key: string, timeoutMs: number): Promise<number | null>;

  /** Adds the shard's share of a new quota, once; returns the plan that stands: this one, or the first one told. */
  initShard(key: string, plan: string, share: number, timeoutMs: number): Promise<string>;
  look(key: string, timeoutMs: number): Promise<ShardState | null>;
  /**
   * Compare-and-set of an operation's record at its home: to `to` where `from` stands ('' stands for none).
   * Returns what stands now. Records that the store itself knows: `done:<amount>:<remaining>`,
   * `refunded:<amount>:<remaining>`, `void`; every other text is a place.
   */
  move(key: string, operation: OperationRef, from: string, to: string, timeoutMs: number): Promise<string>;
  /** Takes the whole amount at this shard, once; a refusal is remembered with its generation. */
  deductAt(
    key: string,
    operation: OperationRef,
    generation: number,
    amount: number,
    timeoutMs: number,
  ): Promise<ShardReply>;
  /**
   * Takes up to `wanted` for an operation that is gathered, once per generation.
   * @returns what it holds here; null when this generation is refused.
   */
  takePart(
    key: string,
    operation: OperationRef,
    generation: number,
    wanted: number,
    timeoutMs: number,
  ): Promise<number | null>;
  /** Gives back what the operation holds at this shard, once, and refuses this generation and lower from then on. */
  giveBackAt(
    key: string,
    operation: OperationRef,
    generation: number,
    timeoutMs: number,
  ): Promise<GiveBackReply>;
}
