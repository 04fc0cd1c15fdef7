/**
 * Makes the tokens of one backend instance: UUIDs (version 8) whose first 23 characters name the instance and
 * whose last 12 count. Nothing leads from one token to another's process but the token itself.
 */
export class TokenSource {
  #next = 1;

  constructor(private readonly prefix: string) {}

  /** Whether a token was made here. */
  owns(token: string): boolean {
    return token.startsWith(this.prefix);
  }

  next(): string {
    return `${this.prefix}-${(this.#next++).toString(16).padStart(12, '0')}`;
  }
}
