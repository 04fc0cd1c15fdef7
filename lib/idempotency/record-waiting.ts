import type { BeginReply, IdempotencyStore, Inbox } from '../backend/backend.js';
import { Deadlines } from '../lock/deadlines.js';
import type { Clock } from '../lock/validity.js';
import { outsideCallChain } from '../outside-call-chain.js';
import { WaitingRoom, type BusyReply, type WaitingContext, type WaitRequest } from './waiting-room.js';

const LEAVE_TRY_MS = 1_000;

/**
 * Where repeats wait for a record that is still pending: however many wait in this process, one of them asks, and
 * the record names this process once. A finished record answers all of them at once, a failed one lets exactly one
 * run.
 */
export class RecordWaiting {
  readonly #rooms = new Map<string, Set<WaitingRoom>>();
  readonly #context: WaitingContext;
  readonly #unlisten: ReadonlyArray<() => void>;

  constructor(
    private readonly store: IdempotencyStore,
    inbox: Inbox,
    clock: Clock,
  ) {
    this.#context = { inbox, clock, deadlines: new Deadlines(clock) };
    this.#unlisten = [
      inbox.onRecordEnded((recordKey) => this.wake(recordKey)),
      // what was said meanwhile was missed
      inbox.onListening(() => {
        for (const recordKey of this.#rooms.keys()) this.wake(recordKey);
      }),
    ];
  }

  /** Waits with those that wait here already; undefined when nobody does, and the store is to be asked first. */
  join(request: WaitRequest): Promise<BeginReply> | undefined {
    return this.#roomOf(request)?.enter(request);
  }

  /** The reply that ends the wait; `busy` when the time is up. */
  wait(request: WaitRequest, busy: BusyReply): Promise<BeginReply> {
    return (this.#roomOf(request) ?? this.#newRoom(request, busy)).enter(request);
  }

  /** The record may have changed: look at once. */
  wake(recordKey: string): void {
    for (const room of this.#rooms.get(recordKey) ?? []) room.wake();
  }

  /** Turns every waiter away. */
  close(error: Error): void {
    for (const unlisten of this.#unlisten) unlisten();
    for (const rooms of [...this.#rooms.values()]) for (const room of [...rooms]) room.close(error);
  }

  /** Another request under the same key must be told so: it asks for itself. */
  #roomOf({ recordKey, fingerprint }: WaitRequest): WaitingRoom | undefined {
    for (const room of this.#rooms.get(recordKey) ?? []) if (room.fingerprint === fingerprint) return room;
    return undefined;
  }

  #newRoom({ recordKey, fingerprint }: WaitRequest, busy: BusyReply): WaitingRoom {
    const rooms = this.#rooms.get(recordKey) ?? new Set();
    this.#rooms.set(recordKey, rooms);
    const room = new WaitingRoom(fingerprint, busy, this.#context, (noted) => {
      if (!rooms.delete(room) || rooms.size > 0) return;
      this.#rooms.delete(recordKey);
      if (noted) outsideCallChain(() => void this.store.leave(recordKey, LEAVE_TRY_MS));
    });
    rooms.add(room);
    return room;
  }
}
