import { outsideCallChain } from '../../outside-call-chain.js';
import type { Inbox, InboxGrant, LeaseRef } from '../backend.js';

/**
 * The one inbox of everybody who shares a backend in memory: each hears all, and knows its own tokens. Heard later
 * than said, as a message is: never inside the operation that passed the lock on.
 */
export class MemoryInbox implements Inbox {
  readonly state = 'listening';
  private readonly grantListeners = new Set<(grant: InboxGrant) => void>();
  private readonly takenListeners = new Set<(lease: LeaseRef) => void>();

  async open(): Promise<void> {
    // nothing stands between this process and itself
  }

  onGrant(listener: (grant: InboxGrant) => void): void {
    this.grantListeners.add(listener);
  }

  onForceRelease(listener: (lease: LeaseRef) => void): void {
    this.takenListeners.add(listener);
  }

  onListening(): void {
    // it always listens: nothing is ever missed
  }

  granted(grant: InboxGrant): void {
    later(() => {
      for (const listener of this.grantListeners) listener(grant);
    });
  }

  taken(lease: LeaseRef): void {
    later(() => {
      for (const listener of this.takenListeners) listener(lease);
    });
  }
}

function later(work: () => void): void {
  outsideCallChain(() => setImmediate(work));
}
