import type { ExecutionContext } from '@nestjs/common';
import type { ReplayableReply } from '../idempotency/stored-reply.js';
import { ValuePort } from './idempotent-value-port.js';

/** What of the types of `graphql` is read. It is no dependency of this package: what is odd is left as it is. */
interface GraphqlType {
  name?: string;
  /** Of a list and of a type that is never null. */
  ofType?: GraphqlType;
  /** Of object types and interfaces. */
  getFields?(): Record<string, { type?: GraphqlType } | undefined>;
  /** Of scalars and enums. */
  serialize?(value: unknown): unknown;
  parseValue?(value: unknown): unknown;
  /** Of enums. */
  getValues?: unknown;
}

/**
 * Stores and replays the values of GraphQL fields. The schema serialises a replayed value once more, and a scalar
 * that wants an object (a Date) would refuse its JSON: it is parsed as the scalar parses what clients send.
 */
export class GraphqlValuePort extends ValuePort {
  readonly #returnType: GraphqlType | undefined;

  constructor(context: ExecutionContext, maxBodyBytes: number) {
    super(maxBodyBytes);
    this.#returnType = context.getArgByIndex<{ returnType?: GraphqlType } | undefined>(3)?.returnType;
  }

  override replay(reply: ReplayableReply): unknown {
    return revived(super.replay(reply), this.#returnType);
  }
}

function revived(value: unknown, type: GraphqlType | undefined): unknown {
  if (value === null || value === undefined || type === undefined) return value;
  if (Array.isArray(value)) {
    const item = type.name === undefined ? type.ofType : type;
    return value.map((one) => revived(one, item));
  }
  const named = nameOf(type);
  if (named.serialize) return revivedLeaf(value, named);
  const fields = named.getFields?.();
  if (!fields || typeof value !== 'object') return value;
  for (const [name, field] of Object.entries(fields)) {
    if (!Object.hasOwn(value, name)) continue;
    const record = value as Record<string, unknown>;
    record[name] = revived(record[name], field?.type);
  }
  return value;
}

function nameOf(type: GraphqlType): GraphqlType {
  return type.ofType ? nameOf(type.ofType) : type;
}

/** What the scalar serialises as it is, stays as it is. */
function revivedLeaf(value: unknown, type: GraphqlType): unknown {
  if (type.getValues) return value;
  try {
    const sent = type.serialize?.(value);
    if (sent !== null && sent !== undefined) return value;
  } catch {
    // it wants another form
  }
  try {
    return type.parseValue?.(value) ?? value;
  } catch {
    return value;
  }
}
