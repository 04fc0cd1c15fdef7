import { StoreUnavailableError, type StoreOutcome } from '../../errors.js';

/** What Redis refuses without having done anything, and may do a moment later. */
const PASSING = new Set([
  'LOADING',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'NOREPLICAS',
  'BUSY',
  'READONLY',
  'MOVED',
  'ASK',
]);

/** What it refuses without having done anything, and will refuse again; with what to do about it. */
const LASTING: Record<string, string> = {
  OOM: 'Redis is out of memory (maxmemory) and takes nothing new: give it more, or remove what is not needed',
  NOAUTH: 'Redis asks for a password: give it in the `redis` option',
  WRONGPASS: 'Redis refuses the user name or the password of the `redis` option',
  NOPERM: 'the Redis user may not do this: allow it the commands and keys of this module (ACL)',
  WRONGTYPE:
    'it holds another type of value, so another program uses this name: choose another key or keyPrefix',
  CROSSSLOT: 'the keys lie in different slots of the Cluster',
};

/** Told apart from an application's own errors of the same look by what the client sets on a reply. */
export function isReplyError(error: Error): boolean {
  return error.name === 'ReplyError';
}

/**
 * The code of an error reply. An error inside a script carries its code first (Redis 7) or within
 * "ERR Error running script (…): @user_script:3: WRONGTYPE Operation …" (Redis 6.2).
 */
export function replyCode(message: string): string {
  const first = /^-?([A-Z][A-Z0-9]*)\b/.exec(message)?.[1] ?? '';
  if (first !== 'ERR' || !message.includes('script')) return first;
  const inner = /(?:user_script:\d+: ?|user_script: ?)(?:@user_script: \d+: )?-?([A-Z]{2,})\b/.exec(
    message,
  )?.[1];
  return inner && (PASSING.has(inner) || inner in LASTING) ? inner : first;
}

/** What SELECT says of a number that the server's `databases` does not have. */
const NO_SUCH_DATABASE = /DB index is out of range|invalid DB index/i;

/** Whether trying again cannot help before somebody changes the configuration. */
export function isRefusal(error: Error): boolean {
  if (!isReplyError(error)) return false;
  return (
    ['NOAUTH', 'WRONGPASS', 'NOPERM'].includes(replyCode(error.message)) ||
    NO_SUCH_DATABASE.test(error.message)
  );
}

/**
 * Says what an error of the client means.
 *
 * @param sent whether the command had left before it happened: then, without a reply, its outcome is unknown.
 */
export function toStoreError(
  error: Error,
  keys: string | readonly string[],
  sent: boolean,
): StoreUnavailableError {
  if (!isReplyError(error)) {
    return sent
      ? refuse('the connection closed before Redis answered', error, keys, 'unknown', true)
      : refuse('Redis is not connected', error, keys, 'notApplied', true);
  }
  const code = replyCode(error.message);
  if (PASSING.has(code))
    return refuse(`Redis cannot do it now (${error.message})`, error, keys, 'notApplied', true);
  const advice = LASTING[code];
  if (advice) return refuse(`${code}: ${advice}`, error, keys, 'notApplied', false);
  if (NO_SUCH_DATABASE.test(error.message)) {
    const message = `this server has no database of that number; give one below its \`databases\` (${error.message})`;
    return refuse(message, error, keys, 'notApplied', false);
  }
  if (/unknown command|syntax error/i.test(error.message)) {
    const message = `this server lacks a command that is needed; use Redis 6.2 or later, or Valkey (${error.message})`;
    return refuse(message, error, keys, 'notApplied', false);
  }
  // a reply that is not known says nothing about what was done before it
  return refuse(`Redis answered ${error.message}`, error, keys, 'unknown', true);
}

/** Redis did not answer in time; the command may still be carried out. */
export function timedOut(keys: string | readonly string[], timeoutMs: number): StoreUnavailableError {
  return refuse(`Redis did not answer within ${Math.round(timeoutMs)} ms`, undefined, keys, 'unknown', true);
}

function refuse(
  message: string,
  cause: Error | undefined,
  keys: string | readonly string[],
  outcome: StoreOutcome,
  retryable: boolean,
): StoreUnavailableError {
  const named = typeof keys === 'string' ? [keys] : keys;
  return new StoreUnavailableError(`${subject(named)}: ${message}.`, {
    keys: named,
    ...(cause ? { cause } : {}),
    outcome,
    retryable,
  });
}

/** The same error, told of one of the keys that a command was sent for. */
export function aboutKey(error: StoreUnavailableError, key: string): StoreUnavailableError {
  const all = subject(error.keys);
  const { message, cause, outcome, retryable } = error;
  return new StoreUnavailableError(
    error.keys.length > 0 && message.startsWith(all) ? subject([key]) + message.slice(all.length) : message,
    { keys: [key], ...(cause === undefined ? {} : { cause }), outcome, retryable },
  );
}

function subject(keys: readonly string[]): string {
  const shown = keys.slice(0, 3).map((key) => JSON.stringify(key));
  return shown.length === 0 ? 'The store' : `The key ${shown.join(', ')}${keys.length > 3 ? ', …' : ''}`;
}
