import type { SectionActivity } from '../activity/activity-event.js';
import type { StockLevel } from '../inventory/stock.service.js';
import type { MerchantLevel } from '../merchants/merchants.service.js';

/** What the page hears, each under its `type` as the event's name. */
export type DashboardMessage =
  | { type: 'hello'; data: Hello }
  | { type: 'callbacks'; data: CallbackCounts }
  | { type: 'sections'; data: SectionActivity[] }
  | { type: 'gates'; data: Gates | Fault }
  | { type: 'locks'; data: HeldLocks | Fault }
  | { type: 'step'; data: Step };

/** Everything that a page which has just been opened, or was cut off, has to know. */
export interface Hello {
  process: string;
  /** False where locks live in the memory of this process: nobody else can hold one. */
  shared: boolean;
  /** Why the buttons do nothing here; null when they work. */
  actionsOff: string | null;
  callbacks: CallbackCounts;
  sections: SectionActivity[];
  steps: Step[];
  gates: Gates | Fault;
  locks: HeldLocks | Fault;
  /** An order that waits for its payment. */
  order: { id: string; amount: number } | null;
}

export interface CallbackCounts {
  in: number;
  taken: number;
  replayed: number;
  refused: number;
  /** How often each code was the reason of a refusal. */
  reasons: Record<string, number>;
}

export interface Gates {
  stock: StockLevel[];
  /** Articles that are not in `stock`. */
  moreStock: number;
  quota: MerchantLevel[];
}

export interface HeldLock {
  key: string;
  fencingToken?: number;
  /** What is left of its lease, by the store. */
  remainingMs: number;
  waitingProcesses: number;
}

export interface HeldLocks {
  locks: HeldLock[];
  /** There are more than are listed. */
  more: boolean;
}

/** Something could not be read: the page says why. */
export interface Fault {
  fault: string;
}

/** One line of the story that a button tells. */
export interface Step {
  /** Milliseconds since 1970. */
  at: number;
  text: string;
  tone: 'plain' | 'good' | 'bad';
}
