import { LockKeyError, type ConfigFault } from '../errors.js';
import { LOCK_PARAMS, type CallContext } from './call-context.js';
import { shortenKey } from './long-key.js';

/** Text with `<path>` placeholders, e.g. `'lock:order:<orderId>'` or `'lock:{<params.tenant>}:<body.order.id>'`. */
export type KeyTemplate = string;

/** One `<path>` of a template. */
export interface Placeholder {
  /** As it was written, without the brackets. */
  readonly text: string;
  /** Where it is looked up, when the template says so; else it is a bare name. */
  readonly root?: Root;
  /** The steps below the root, or of the bare name. */
  readonly path: readonly string[];
}

/** A template that was checked: literal, placeholder, literal, placeholder, …, literal. */
export interface ParsedKeyTemplate {
  readonly text: KeyTemplate;
  readonly literals: readonly string[];
  readonly placeholders: readonly Placeholder[];
}

const ROOTS = ['params', 'query', 'body', 'headers', 'user', 'data', 'args'] as const;
type Root = (typeof ROOTS)[number];

/** Encoded in values. `%` stands for itself so that an encoded value is unlike any other. */
const ENCODED_CHARACTER = /[:<>{}%\s\p{Cc}]/u;
const ENCODED = new RegExp(ENCODED_CHARACTER.source, 'gu');
/** Never part of an encoded value: what may keep two placeholders apart. `%` is, so it may not. */
const SEPARATOR = /[:{}\s\p{Cc}]/u;
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Checks a template. Every fault is added to `faults` with `path`; undefined when there was one: no non-empty
 * text, brackets that are no placeholder, `{word}` where `<word>` is meant, or two placeholders with nothing
 * between them that keeps their values apart.
 */
export function parseKeyTemplate(
  template: unknown,
  path: string,
  faults: ConfigFault[],
): ParsedKeyTemplate | undefined {
  const before = faults.length;
  const fault = (message: string): void => {
    faults.push({ path, message });
  };
  if (typeof template !== 'string' || template === '') {
    fault('a key template is a non-empty text, e.g. "lock:order:<orderId>"');
    return undefined;
  }
  if (LONE_SURROGATE.test(template))
    fault(`the template ${JSON.stringify(template)} is not well-formed Unicode`);

  const parts = template.split(/<([^<>]*)>/u);
  const literals = parts.filter((_, index) => index % 2 === 0);
  const names = parts.filter((_, index) => index % 2 === 1);
  if (literals.some((literal) => /[<>]/u.test(literal))) {
    fault(`the template '${template}' has a bracket that belongs to no <placeholder>`);
  }
  for (const name of names) {
    if (name.split('.').every((step) => step !== '' && !ENCODED_CHARACTER.test(step))) continue;
    fault(`<${name}> in the template '${template}' is no path: write <name> or <body.order.id>`);
  }
  const meant = /\{\s*([\w$][\w$.-]*)\s*\}/u.exec(template)?.[1];
  if (names.length === 0 && meant !== undefined) {
    fault(
      `the template '${template}' has no placeholder: {${meant}} is Redis Cluster's hash tag, write <${meant}> ` +
        `(pass a function to mean it: () => '${template}')`,
    );
  }
  for (const [index, literal] of literals.slice(1, -1).entries()) {
    if (SEPARATOR.test(literal)) continue;
    fault(
      `in the template '${template}' a ':' must stand between <${names[index]}> and <${names[index + 1]}>: ` +
        'else two different calls could get one key',
    );
  }
  return faults.length === before
    ? { text: template, literals, placeholders: names.map(placeholder) }
    : undefined;
}

/**
 * Fills a template from a call. Only own properties are looked up; values are percent-encoded where they could
 * be taken for a part of the template; a long key ends in a hash.
 *
 * @throws LockKeyError when a placeholder has no usable value, or a bare name has several.
 */
export function fillKeyTemplate(template: ParsedKeyTemplate, call: CallContext): string {
  let key = template.literals[0] ?? '';
  for (const [index, wanted] of template.placeholders.entries()) {
    key += encode(textOf(wanted, template, call)) + (template.literals[index + 1] ?? '');
  }
  return shortenKey(key);
}

function placeholder(text: string): Placeholder {
  const path = text.split('.');
  const root = ROOTS.find((name) => name === path[0]);
  if (root === undefined || path.length === 1) return { text, path };
  const steps = path.slice(1);
  // A header has no parts, and its name may hold a dot.
  return { text, root, path: root === 'headers' ? [steps.join('.').toLowerCase()] : steps };
}

function textOf(wanted: Placeholder, template: ParsedKeyTemplate, call: CallContext): string {
  const found =
    wanted.root === undefined
      ? BARE.map(({ where, of }) => ({ where, value: lookUp(of(call), wanted.path) }))
      : [{ where: wanted.root, value: lookUp(call[wanted.root], wanted.path) }];
  const refuse = (why: string): never => {
    throw new LockKeyError(
      `The key '${template.text}' cannot be built from this call: <${wanted.text}> ${why}.`,
    );
  };

  const texts = new Map<string, string>();
  for (const { where, value } of found) {
    if (value === undefined) continue;
    const text = scalarText(value);
    if (typeof text !== 'string') refuse(`in ${where} is ${text.fault}`);
    else if (!texts.has(text)) texts.set(text, where);
  }
  const [first] = texts.keys();
  if (first === undefined) return refuse('is missing');
  if (texts.size > 1) refuse(`has different values in ${[...texts.values()].join(' and ')}`);
  return first;
}

const BARE: ReadonlyArray<{ where: string; of: (call: CallContext) => unknown }> = [
  { where: 'the route params', of: (call) => call.params },
  { where: 'the query', of: (call) => call.query },
  { where: 'the body', of: (call) => call.body },
  { where: 'the data', of: (call) => call.data },
  { where: 'the parameters', of: (call) => call[LOCK_PARAMS] },
];

function lookUp(from: unknown, path: readonly string[]): unknown {
  let value = from;
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<string, unknown>)[step];
  }
  return value;
}

function scalarText(value: unknown): string | { fault: string } {
  switch (typeof value) {
    case 'string':
      if (value === '') return { fault: 'empty' };
      return LONE_SURROGATE.test(value) ? { fault: 'not well-formed Unicode' } : value;
    case 'number':
      return Number.isFinite(value) ? String(value) : { fault: `${value}, no finite number` };
    case 'bigint':
    case 'boolean':
      return String(value);
    default:
      return {
        fault: value === null ? 'null' : Array.isArray(value) ? 'an array' : `of the type ${typeof value}`,
      };
  }
}

function encode(text: string): string {
  return text.replace(ENCODED, (char) =>
    [...Buffer.from(char)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );
}
