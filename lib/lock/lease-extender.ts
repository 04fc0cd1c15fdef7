import type { Backend } from '../backend/backend.js';
import { withRetries } from '../backend/retry.js';
import type { Lease } from './lease.js';
import { instant, type Clock } from './validity.js';

const BUDGET_MS = 2_000;

/** Prolongs leases at their holder's wish; the watchdog goes on with the lock's own ttl. */
export class LeaseExtender {
  constructor(
    private readonly backend: Backend,
    private readonly clock: Clock,
  ) {}

  /**
   * @param leaseMs default: each lock's own ttl.
   * @throws StoreUnavailableError when the store does not answer while the leases are valid.
   */
  async extend(leases: readonly Lease[], leaseMs?: number): Promise<void> {
    await Promise.all(leases.map((lease) => this.#extendOne(lease, leaseMs ?? lease.terms.ttlMs)));
  }

  #extendOne(lease: Lease, leaseMs: number): Promise<void> {
    const { key, token, terms } = lease;
    const budgetMs = Math.min(BUDGET_MS, lease.validityLeftMs);
    return withRetries(this.backend, { budgetMs }, async (timeoutMs) => {
      const sentAt = instant(this.clock);
      const request = { key: key.full, token, leaseMs, ttlMs: terms.ttlMs };
      const reply = await this.backend.locks.extend([request], timeoutMs)[0]!;
      // released or lost while it was on its way: it must not revive it
      if (lease.state !== 'held') return;
      if (reply === 'extended') lease.renewed(sentAt, leaseMs);
      else lease.lose({ reason: 'taken' });
    });
  }
}
