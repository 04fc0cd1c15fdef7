import type { Carrier } from './script-runner.js';

/** So many tokens with a try under way or unanswered are remembered; beyond it the oldest is forgotten. */
const MOST = 10_000;

/**
 * Remembers which connection carried every try that has no answer (yet), by whom the try belongs to: a lock's
 * token, or a record's owner.
 */
export class UnansweredTries {
  /** Most have one try: no list is made for it. */
  private readonly tries = new Map<string, Carrier | Carrier[]>();

  began(id: string, carrier: Carrier): void {
    const known = this.tries.get(id);
    if (known) {
      this.tries.set(id, Array.isArray(known) ? [...known, carrier] : [known, carrier]);
      return;
    }
    if (this.tries.size >= MOST) this.tries.delete(this.tries.keys().next().value!);
    this.tries.set(id, carrier);
  }

  /** False when it is not remembered (any more): {@link take} was quicker. */
  answered(id: string, carrier: Carrier): boolean {
    const known = this.tries.get(id);
    if (known === carrier) return this.tries.delete(id);
    if (!Array.isArray(known) || !known.includes(carrier)) return false;
    const rest = known.filter((one) => one !== carrier);
    if (rest.length === 0) this.tries.delete(id);
    else this.tries.set(id, rest);
    return true;
  }

  /** The tries of this id that were not answered; forgotten with this. */
  take(id: string): Carrier[] {
    const known = this.tries.get(id) ?? [];
    this.tries.delete(id);
    return Array.isArray(known) ? known : [known];
  }
}
