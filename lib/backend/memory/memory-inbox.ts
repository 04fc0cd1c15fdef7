import { outsideCallChain } from '../../outside-call-chain.js';
import type { Inbox, InboxGrant, LeaseRef } from '../backend.js';

/**
 * The one inbox of everybody who shares a backend in memory: each hears all, and knows its own tokens. Heard later
 * than said, as a message is: never inside the operation that passed the lock on.
 */
export class MemoryInbox implements Inbox {
  readonly state = 'listening';
  private readonly grants = new Channel<InboxGrant>();
  private readonly takings = new Channel<LeaseRef>();
  private readonly records = new Channel<string>();

  async open(): Promise<void> {
    // nothing stands between this process and itself
  }

  onGrant(listener: (grant: InboxGrant) => void): () => void {
    return this.grants.listen(listener);
  }

  onForceRelease(listener: (lease: LeaseRef) => void): () => void {
    return this.takings.listen(listener);
  }

  onRecordEnded(listener: (recordKey: string) => void): () => void {
    return this.records.listen(listener);
  }

  onListening(): () => void {
    // it always listens: nothing is ever missed
    return () => undefined;
  }

  granted(grant: InboxGrant): void {
    this.grants.tell(grant);
  }

  taken(lease: LeaseRef): void {
    this.takings.tell(lease);
  }

  recordEnded(recordKey: string): void {
    this.records.tell(recordKey);
  }
}

class Channel<M> {
  private readonly listeners = new Set<(message: M) => void>();

  listen(listener: (message: M) => void): () => void {
    // every registration is one of its own, so that taking one away leaves the others
    const own = (message: M): void => listener(message);
    this.listeners.add(own);
    return () => void this.listeners.delete(own);
  }

  tell(message: M): void {
    outsideCallChain(() =>
      setImmediate(() => {
        for (const listener of this.listeners) listener(message);
      }),
    );
  }
}
