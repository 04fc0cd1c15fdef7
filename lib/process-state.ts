/**
 * State that must exist once in a process, even when it holds a CommonJS and an ES copy of this package:
 * otherwise a call would be guarded twice, and a nested hold would wait for its own parent.
 * The number in the name is the layout's version: raise it when the shape of anything kept here changes.
 */
const SLOT = Symbol.for('nestjs-redis-lock/1');

/** Returns the process-wide value of this name, made at the first use. */
export function processState<T>(name: string, create: () => T): T {
  const host = globalThis as { [SLOT]?: Map<string, unknown> };
  const slots = (host[SLOT] ??= new Map());
  if (!slots.has(name)) slots.set(name, create());
  return slots.get(name) as T;
}
