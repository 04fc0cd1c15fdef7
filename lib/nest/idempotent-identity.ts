import type { ExecutionContext } from '@nestjs/common';
import { fillKeyTemplate, parseKeyTemplate, type ParsedKeyTemplate } from '../call/key-template.js';
import { IdempotencyKeyError, isRedisLockError, LockConfigError, type ConfigFault } from '../errors.js';
import { readHeaderKey } from '../idempotency/header-key.js';
import type { IdempotentSpec, TextSource } from '../idempotency/idempotency-options.js';
import { headerRecord, keyRecord } from '../idempotency/record-key.js';
import type { CallContext } from './call-context.js';
import { isUnnamed } from './idempotent-key-absence.js';
import { headerValues, routePlace } from './idempotent-request.js';
import { REQUESTED_VERSION } from './requested-version.js';

/**
 * The record key of a call.
 *
 * @returns undefined when the call has no key and need not have one: it runs, not de-duplicated.
 * @throws IdempotencyKeyError when the key is missing though required, malformed, or cannot be built.
 */
export function recordKeyOf(
  prefix: string,
  spec: IdempotentSpec,
  call: CallContext,
  context: ExecutionContext | undefined,
): string | undefined {
  return spec.key.kind === 'key'
    ? keyRecordOf(prefix, spec, spec.key.from, call)
    : headerRecordOf(prefix, spec, spec.key, call, context);
}

function keyRecordOf(
  prefix: string,
  spec: IdempotentSpec,
  from: TextSource,
  call: CallContext,
): string | undefined {
  const key = textOf(from, call, spec.required, 'key');
  if (key === undefined) {
    if (!spec.required) return undefined;
    throw new IdempotencyKeyError('This call has no idempotency key, and must have one.');
  }
  return keyRecord(prefix, { key, ...scopeOf(spec, call) });
}

function headerRecordOf(
  prefix: string,
  spec: IdempotentSpec,
  { header, namespace }: { header: string; namespace?: string },
  call: CallContext,
  context: ExecutionContext | undefined,
): string | undefined {
  const value = context && readHeaderKey(header, headerValues(context, header));
  if (context === undefined || value === undefined) {
    if (!spec.required) return undefined;
    throw new IdempotencyKeyError(`The header ${header} is required.`);
  }
  const place = namespace === undefined ? routePlace(context, requestedOf(call)) : { namespace };
  return headerRecord(prefix, { header: value, place, ...scopeOf(spec, call) });
}

function requestedOf(call: CallContext): unknown {
  return (call as { [REQUESTED_VERSION]?: unknown })[REQUESTED_VERSION];
}

function scopeOf(spec: IdempotentSpec, call: CallContext): { scope?: string } {
  if (spec.scope === undefined) return {};
  const scope = textOf(spec.scope, call, true, 'scope');
  if (scope !== undefined) return { scope };
  throw new IdempotencyKeyError('The scope of this call cannot be built: whose key it is must be known.');
}

/** The text, or undefined when there is none. */
function textOf(from: TextSource, call: CallContext, required: boolean, what: string): string | undefined {
  if (typeof from === 'string') {
    const template = parsed(from);
    return !required && isUnnamed(template, call) ? undefined : fill(template, call);
  }
  const text: unknown = from(call);
  if (text === undefined || text === null || text === '') return undefined;
  if (typeof text === 'string') return text;
  throw new IdempotencyKeyError(`The ${what} of an idempotent call is a string, not ${typeof text}.`);
}

function fill(template: ParsedKeyTemplate, call: CallContext): string {
  try {
    return fillKeyTemplate(template, call);
  } catch (error) {
    if (!isRedisLockError(error, 'LOCK_KEY')) throw error;
    throw new IdempotencyKeyError(error.message, { cause: error });
  }
}

/** Declarations are few and live as long as the program. */
const templates = new Map<string, ParsedKeyTemplate>();

function parsed(text: string): ParsedKeyTemplate {
  const known = templates.get(text);
  if (known) return known;
  const faults: ConfigFault[] = [];
  const template = parseKeyTemplate(text, 'idempotency', faults);
  if (!template) throw new LockConfigError(faults);
  templates.set(text, template);
  return template;
}
