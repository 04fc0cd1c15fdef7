import { collectDuration } from '../duration.js';
import type { ConfigFault } from '../errors.js';

/** Reads options one by one and collects what is wrong with them. */
export class OptionCheck {
  readonly #options: Readonly<Record<string, unknown>>;

  constructor(
    options: object | undefined,
    private readonly path: string,
    private readonly faults: ConfigFault[],
    known: readonly string[],
  ) {
    if (
      options !== undefined &&
      (typeof options !== 'object' || options === null || Array.isArray(options))
    ) {
      faults.push({ path, message: 'idempotency options are one object, e.g. { ttl: "24h" }' });
      this.#options = {};
      return;
    }
    this.#options = { ...options };
    for (const name of Object.keys(this.#options)) {
      if (!known.includes(name)) this.fault(name, `is no option; there are ${known.join(', ')}`);
    }
  }

  fault(name: string, message: string): void {
    this.faults.push({ path: this.#at(name), message });
  }

  value(name: string): unknown {
    return this.#options[name];
  }

  has(name: string): boolean {
    return this.#options[name] !== undefined;
  }

  duration(name: string, fallback: number, min = 0): number {
    const value = this.#options[name];
    return value === undefined ? fallback : collectDuration(value, this.#at(name), this.faults, { min });
  }

  flag(name: string): boolean | undefined {
    return this.#typed(name, (value) => typeof value === 'boolean', 'is true or false');
  }

  text(name: string): string | undefined {
    return this.#typed(name, (value) => typeof value === 'string' && value !== '', 'is a non-empty string');
  }

  fn(name: string): unknown {
    return this.#typed(name, (value) => typeof value === 'function', 'is a function');
  }

  oneOf<const T extends string>(name: string, values: readonly T[]): T | undefined {
    const all = values.map((value) => `'${value}'`).join(' or ');
    return this.#typed(name, (value) => values.includes(value as T), `is ${all}`);
  }

  #typed<T>(name: string, fits: (value: unknown) => boolean, message: string): T | undefined {
    const value = this.#options[name];
    if (value === undefined) return undefined;
    if (fits(value)) return value as T;
    this.fault(name, message);
    return undefined;
  }

  #at(name: string): string {
    return this.path ? `${this.path}.${name}` : name;
  }
}
