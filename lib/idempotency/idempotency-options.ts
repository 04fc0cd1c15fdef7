import type { CallContext } from '../call/call-context.js';
import { LockConfigError, type ConfigFault } from '../errors.js';
import type { FingerprintRule } from './fingerprint.js';
import type { IdempotencyCodec, IdempotencyDefaults, IdempotentOptions, OnError } from './idempotency.js';
import { OptionCheck } from './option-check.js';

/** The least lease: below it a renewal every third of it cannot be relied on. */
export const MIN_LEASE_MS = 100;

/** Where a key or a scope comes from: a template (parsed where calls are known, in `nest/`), or a function. */
export type TextSource<R = string | undefined> = string | ((call: CallContext) => R);

/** What names the record of a call. */
export type KeySource =
  { kind: 'header'; header: string; namespace?: string } | { kind: 'key'; from: TextSource };

/** {@link IdempotencyDefaults}, resolved. */
export interface ResolvedIdempotencyDefaults {
  ttlMs: number;
  leaseMs: number;
  /** Undefined: false with `header`, true with `key`. */
  required?: boolean;
  onConcurrent: 'reject' | 'wait';
  waitTimeoutMs: number;
  onStoreDown: 'reject' | 'bypass';
  maxBodyBytes: number;
  /** Lower case. */
  replayHeaders: readonly string[];
  beforeStore?: (value: unknown, call: CallContext) => unknown;
  codec?: IdempotencyCodec;
}

/** {@link IdempotentOptions} with every default filled in and every duration in milliseconds. */
export interface IdempotentSpec extends ResolvedIdempotencyDefaults {
  key: KeySource;
  required: boolean;
  scope?: TextSource<string>;
  fingerprint: FingerprintRule;
  inFlightReply?: (call: CallContext) => unknown;
  onError: OnError | ((error: unknown, call: CallContext) => OnError);
  isSuccess?: (value: unknown, status: number) => boolean;
  instance?: string;
}

export const IDEMPOTENCY_DEFAULTS: ResolvedIdempotencyDefaults = {
  ttlMs: 86_400_000,
  leaseMs: 30_000,
  onConcurrent: 'reject',
  waitTimeoutMs: 5_000,
  onStoreDown: 'reject',
  maxBodyBytes: 262_144,
  replayHeaders: [],
};

export const DEFAULT_HEADER = 'Idempotency-Key';

/** A field name of RFC 9110. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Kept from every replay, whatever the options say: they belong to one connection, one client or one moment. */
const NEVER_REPLAYED = new Set([
  'set-cookie',
  'date',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
]);
/** Traces (W3C, B3, Jaeger, cloud vendors) and rate limits, which tell of one request and one moment. */
const NEVER_REPLAYED_KIND =
  /^(traceparent|tracestate|b3|x-b3-.+|uber-trace-id|x-cloud-trace-context|x-amzn-trace-id|(x-)?rate-?limit(-.+)?)$/;
export const ON_ERROR: ReadonlySet<unknown> = new Set<OnError>(['release', 'store', 'hold']);

const DEFAULTS_KNOWN = [
  'ttl',
  'lease',
  'required',
  'onConcurrent',
  'waitTimeout',
  'onStoreDown',
  'maxBodyBytes',
  'replayHeaders',
  'beforeStore',
  'codec',
];
const OPTIONS_KNOWN = [
  'header',
  'key',
  'namespace',
  'scope',
  'fingerprint',
  'inFlightReply',
  'onError',
  'isSuccess',
  'instance',
  ...DEFAULTS_KNOWN,
];

/**
 * Checks the module's defaults for idempotency. Every fault is added to `faults` with its path; the result is
 * only to be used when none was.
 */
export function collectIdempotencyDefaults(
  options: IdempotencyDefaults | undefined,
  path: string,
  faults: ConfigFault[],
): ResolvedIdempotencyDefaults {
  const check = new OptionCheck(options, path, faults, DEFAULTS_KNOWN);
  return common(check, IDEMPOTENCY_DEFAULTS);
}

/**
 * Checks the options of one `@Idempotent` and fills them in. Every fault is added to `faults` with its path; the
 * result is only to be used when none was.
 *
 * @param defaults the module's, resolved; undefined while they are not known yet (at decoration).
 */
export function collectIdempotentOptions(
  options: IdempotentOptions | undefined,
  defaults: ResolvedIdempotencyDefaults | undefined,
  path: string,
  faults: ConfigFault[],
): IdempotentSpec {
  const check = new OptionCheck(options, path, faults, OPTIONS_KNOWN);
  const resolved = common(check, defaults ?? IDEMPOTENCY_DEFAULTS);
  const key = keySource(check);
  const scope = textSource(check, 'scope') as TextSource<string> | undefined;
  const inFlightReply = check.fn('inFlightReply') as IdempotentSpec['inFlightReply'];
  const isSuccess = check.fn('isSuccess') as IdempotentSpec['isSuccess'];
  const instance = check.text('instance');
  return {
    ...resolved,
    key,
    required: resolved.required ?? key.kind === 'key',
    fingerprint: fingerprint(check) ?? (key.kind === 'header' ? 'bodyUnlessMultipart' : false),
    onError: onError(check),
    ...(scope === undefined ? {} : { scope }),
    ...(inFlightReply && { inFlightReply }),
    ...(isSuccess && { isSuccess }),
    ...(instance === undefined ? {} : { instance }),
  };
}

/** As {@link collectIdempotentOptions}, but faults are thrown as one `LockConfigError`. */
export function resolveIdempotentOptions(
  options: IdempotentOptions | undefined,
  defaults?: ResolvedIdempotencyDefaults,
  path = '',
): IdempotentSpec {
  const faults: ConfigFault[] = [];
  const spec = collectIdempotentOptions(options, defaults, path, faults);
  if (faults.length > 0) throw new LockConfigError(faults);
  return spec;
}

function common(check: OptionCheck, defaults: ResolvedIdempotencyDefaults): ResolvedIdempotencyDefaults {
  const required = check.flag('required') ?? defaults.required;
  return {
    ttlMs: check.duration('ttl', defaults.ttlMs, 1),
    leaseMs: check.duration('lease', defaults.leaseMs, MIN_LEASE_MS),
    ...(required === undefined ? {} : { required }),
    onConcurrent: check.oneOf('onConcurrent', ['reject', 'wait']) ?? defaults.onConcurrent,
    waitTimeoutMs: check.duration('waitTimeout', defaults.waitTimeoutMs),
    onStoreDown: check.oneOf('onStoreDown', ['reject', 'bypass']) ?? defaults.onStoreDown,
    maxBodyBytes: maxBodyBytes(check) ?? defaults.maxBodyBytes,
    replayHeaders: [...new Set([...defaults.replayHeaders, ...replayHeaders(check)])],
    ...storing(check, defaults),
  };
}

/** What is done to a reply on its way into the store. */
export function storing(
  check: OptionCheck,
  defaults: ResolvedIdempotencyDefaults,
): Pick<ResolvedIdempotencyDefaults, 'beforeStore' | 'codec'> {
  const beforeStore =
    (check.fn('beforeStore') as ResolvedIdempotencyDefaults['beforeStore']) ?? defaults.beforeStore;
  const given = check.value('codec') as IdempotencyCodec | undefined;
  if (given !== undefined && !isCodec(given)) {
    check.fault('codec', 'is an object with the functions encode and decode');
  }
  const codec = given ?? defaults.codec;
  return { ...(beforeStore && { beforeStore }), ...(codec && { codec }) };
}

function isCodec(value: unknown): boolean {
  const codec = value as Partial<IdempotencyCodec> | null;
  return (
    typeof codec === 'object' && typeof codec?.encode === 'function' && typeof codec.decode === 'function'
  );
}

function keySource(check: OptionCheck): KeySource {
  const header = check.text('header');
  const namespace = check.text('namespace');
  if (check.has('key')) {
    if (check.has('header')) {
      check.fault(
        'header',
        'and key exclude each other: a record is named by the header or by a business key',
      );
    }
    if (check.has('namespace')) {
      check.fault('namespace', 'replaces the route of a header record: a key is the same everywhere already');
    }
    return { kind: 'key', from: textSource(check, 'key') ?? (() => undefined) };
  }
  if (header !== undefined && !HEADER_NAME.test(header))
    check.fault('header', 'is no name of an HTTP header');
  return {
    kind: 'header',
    header: header ?? DEFAULT_HEADER,
    ...(namespace === undefined ? {} : { namespace }),
  };
}

function textSource(check: OptionCheck, name: 'key' | 'scope'): TextSource | undefined {
  const value = check.value(name);
  if (value === undefined) return undefined;
  if (typeof value === 'function') return value as (call: CallContext) => string | undefined;
  if (typeof value === 'string' && value !== '') return value;
  check.fault(name, "is a template such as 'wechat:<body.id>', or a function");
  return undefined;
}

function fingerprint(check: OptionCheck): IdempotentOptions['fingerprint'] {
  const value = check.value('fingerprint');
  const fields =
    Array.isArray(value) && value.length > 0 && value.every((f) => typeof f === 'string' && f !== '');
  if (value === undefined || typeof value === 'boolean' || typeof value === 'function' || fields) {
    return value as IdempotentOptions['fingerprint'];
  }
  check.fault('fingerprint', 'is true, false, a list of field names of the body, or a function');
  return undefined;
}

/** `onError` of a declaration, or of one execution. */
export function onError(check: OptionCheck): IdempotentSpec['onError'] {
  const value = check.value('onError');
  if (typeof value === 'function') return value as IdempotentSpec['onError'];
  if (value !== undefined && !ON_ERROR.has(value)) {
    check.fault('onError', "is 'release', 'store', 'hold', or a function that returns one of them");
    return 'release';
  }
  return (value as OnError | undefined) ?? 'release';
}

function maxBodyBytes(check: OptionCheck): number | undefined {
  const value = check.value('maxBodyBytes');
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  check.fault('maxBodyBytes', 'is a whole number of bytes');
  return undefined;
}

function replayHeaders(check: OptionCheck): string[] {
  const value = check.value('replayHeaders');
  if (value === undefined) return [];
  if (!Array.isArray(value) || !value.every((name) => typeof name === 'string' && HEADER_NAME.test(name))) {
    check.fault('replayHeaders', 'is a list of header names');
    return [];
  }
  const names = (value as string[]).map((name) => name.toLowerCase());
  for (const name of names) {
    if (NEVER_REPLAYED.has(name) || NEVER_REPLAYED_KIND.test(name)) {
      check.fault('replayHeaders', `${name} is never replayed`);
    }
  }
  return names;
}
