/** An own field of what a provider sent, or of what it is answered; undefined when there is none. */
export function ownField(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}
