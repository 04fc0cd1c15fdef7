import type { CallContext } from '../call/call-context.js';
import type { Duration } from '../duration.js';

/** A key template: text with `<path>` placeholders, e.g. `'wechat:<body.id>'`. */
type Template = string;

/** What becomes of a record whose run failed. */
export type OnError = 'release' | 'store' | 'hold';

export interface IdempotentOptions {
  /**
   * The header that carries the key.
   * @default 'Idempotency-Key'
   */
  header?: string;
  /** A business key instead of a header, e.g. `'wechat:<body.id>'`. */
  key?: Template | ((call: CallContext) => string | undefined);
  /** Replaces the route in a header record's identity. */
  namespace?: string;
  /**
   * How long a finished record is replayed.
   * @default '24h'
   */
  ttl?: Duration;
  /**
   * How long an unfinished record is owned without renewal; renewed while the handler runs.
   * @default '30s'
   */
  lease?: Duration;
  /**
   * What a request without a key gets: false runs it, not de-duplicated; true is a 400.
   * @default false with `header`, true with `key`
   */
  required?: boolean;
  /** Whom the key belongs to, e.g. `'<user.id>'`. */
  scope?: Template | ((call: CallContext) => string);
  /**
   * What must be the same in a repeat: the body (true), nothing (false), the named fields of the body, or what
   * the function returns (or its promise gives). The body of a multipart form is compared only when told: `true`.
   * @default true with `header`, false with `key`
   */
  fingerprint?: boolean | readonly string[] | ((call: CallContext) => unknown);
  /**
   * A repeat while the first still runs.
   * @default 'reject'
   */
  onConcurrent?: 'reject' | 'wait';
  /**
   * Instead of the 409's body, in a provider's own shape; the status stays 409. Throw an HttpException for
   * another status.
   */
  inFlightReply?: (call: CallContext) => unknown;
  /**
   * For `onConcurrent: 'wait'`.
   * @default '5s'
   */
  waitTimeout?: Duration;
  /**
   * What becomes of the record when the handler fails: `'release'` frees the key, `'store'` keeps the reply,
   * `'hold'` keeps it pending until the lease ends. A function gets the error, or the value that `isSuccess`
   * calls a failure. Not asked when the method was not reached (released), nor when it had succeeded or a lock
   * was lost (never released): work that was done is not done again.
   * @default 'release'
   */
  onError?: OnError | ((error: unknown, call: CallContext) => OnError);
  /** False: the reply is treated as an error, as `onError` says. The status is 200 where there is no HTTP. */
  isSuccess?: (value: unknown, status: number) => boolean;
  /**
   * The store cannot be reached at the beginning: 503, or run without de-duplication.
   * @default 'reject'
   */
  onStoreDown?: 'reject' | 'bypass';
  /**
   * The largest body that is kept, in bytes.
   * @default 262144
   */
  maxBodyBytes?: number;
  /** Reply headers to keep besides the safe ones. */
  replayHeaders?: readonly string[];
  /**
   * Changes what is kept of a reply, e.g. takes out what must not stand in the store; sync or async. It gets a copy
   * of the reply's value as a repeat would get it (plain JSON data, a Buffer for bytes and files; of an error kept by
   * `onError: 'store'` its response, and then, when that is changed, not its own fields), and returns what is kept
   * instead; returning nothing keeps the copy as it was left. The first caller gets the whole reply. When it fails,
   * nothing is kept and repeats are refused (`IDEMPOTENCY_UNREPLAYABLE`).
   */
  beforeStore?: (value: CallContext['body'], call: CallContext) => unknown;
  /** Encrypts or compresses what is kept. */
  codec?: IdempotencyCodec;
  /** The named instance of the module to use. */
  instance?: string;
}

/**
 * Turns the bytes of a stored reply into others and back, e.g. encrypted or compressed; sync or async. A reply that
 * cannot be encoded is not kept and one that cannot be decoded not replayed: repeats are refused
 * (`IDEMPOTENCY_UNREPLAYABLE`), and nothing runs again. Replies stored without a codec are still replayed.
 */
export interface IdempotencyCodec {
  /** @param recordKey names the record: bind the bytes to it (as additional authenticated data, say). */
  encode(payload: Buffer, recordKey: string): Uint8Array | Promise<Uint8Array>;
  /** Gives back what {@link encode} was given; throws when it cannot. */
  decode(encoded: Buffer, recordKey: string): Uint8Array | Promise<Uint8Array>;
}

/** The module's defaults for every `@Idempotent`. */
export type IdempotencyDefaults = Pick<
  IdempotentOptions,
  | 'ttl'
  | 'lease'
  | 'required'
  | 'onConcurrent'
  | 'waitTimeout'
  | 'onStoreDown'
  | 'maxBodyBytes'
  | 'replayHeaders'
  | 'beforeStore'
  | 'codec'
>;

/** Options of `IdempotencyService.execute`. */
export type ExecuteOptions = Pick<
  IdempotentOptions,
  | 'ttl'
  | 'lease'
  | 'onConcurrent'
  | 'waitTimeout'
  | 'onError'
  | 'isSuccess'
  | 'onStoreDown'
  | 'beforeStore'
  | 'codec'
> & { scope?: string; fingerprint?: unknown };

/** A record as the store shows it. */
export interface IdempotencyRecordInfo {
  recordKey: string;
  state: 'pending' | 'done';
  /** 1 is the first run; more means that an earlier run died. */
  attempt: number;
  /** What is left of the owner's lease, in milliseconds; 0 when it ran out or the record is done. */
  leaseMs: number;
  /** Whether a repeat would get a stored reply; one that went through a codec is taken for readable. */
  replayable: boolean;
}

export interface IdempotencyEvent {
  type: 'started' | 'completed' | 'replayed' | 'inProgress' | 'mismatch' | 'takeover' | 'lost' | 'storeDown';
  recordKey: string;
  attempt?: number;
  /** Why; with `completed` and `replayed`: why the reply could not be kept, or not be read (a codec that failed). */
  error?: Error;
}

/** How often each event happened in this process since its start. */
export type IdempotencyCounters = Readonly<Record<IdempotencyEvent['type'], number>>;
