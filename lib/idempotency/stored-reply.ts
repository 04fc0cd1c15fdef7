/** What a finished record holds. */
export type StoredReply = StoredValue | StoredError | Tombstone;

/** What a repeat can be given. */
export type ReplayableReply = StoredValue | StoredError;

/** A reply that the handler gave. */
export interface StoredValue {
  kind: 'value';
  body: StoredBody;
  /** The HTTP status. Absent when the record was not written over HTTP: then the handler's default applies. */
  status?: number;
  headers?: StoredHeaders;
}

/** An HTTP error that the handler threw, kept because `onError` said `'store'`. */
export interface StoredError {
  kind: 'error';
  status: number;
  /** What `getResponse()` gave, as JSON. */
  response: string;
  message: string;
  /** The class to throw again: the nearest one of Nest's own. */
  type: string;
  /** The error's name, of the application's own class perhaps. */
  name: string;
  /** Own fields of the error that JSON can express, as JSON. */
  fields?: string;
  headers?: StoredHeaders;
}

/** Done, but there is no reply to give again: the handler is never run a second time all the same. */
export interface Tombstone {
  kind: 'tombstone';
  /** For operators. */
  reason: string;
}

export type StoredHeaders = Record<string, string | string[]>;

/** A value, in a form that gives the same bytes when it goes through the same serialiser again. */
export type StoredBody =
  | { kind: 'undefined' }
  /** `boxed`: an object (Date, Decimal) whose JSON is no object: as an object it must come back. */
  | { kind: 'json'; json: string; boxed?: boolean }
  /** A number that JSON has no form for (NaN, Infinity). */
  | { kind: 'number'; text: string }
  | { kind: 'bytes'; bytes: Buffer; view: 'Buffer' | 'Uint8Array' }
  | { kind: 'file'; bytes: Buffer; type?: string; disposition?: string | string[] };

export function tombstone(reason: string): Tombstone {
  return { kind: 'tombstone', reason };
}
