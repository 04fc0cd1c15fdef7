import type { Generated } from 'kysely';

/**
 * The tables as Kysely sees them. Money is kept in the smallest unit (cents), times as ISO 8601 text: both read
 * the same from the embedded database and from Postgres.
 */
export interface Schema {
  merchants: MerchantsTable;
  inventory: InventoryTable;
  orders: OrdersTable;
  payments: PaymentsTable;
  grants: GrantsTable;
  journal: JournalTable;
  callback_runs: CallbackRunsTable;
  refused_writes: RefusedWritesTable;
  reconciliations: ReconciliationsTable;
}

export interface MerchantsTable {
  id: string;
  /** How many paid orders the merchant has prepaid in all. */
  granted: number;
  /** How many of them are charged. */
  spent: Generated<number>;
  /** When Redis' quota was last made from this row: older operations are in its number, but not known by their ids. */
  opened_at: string | null;
}

export interface InventoryTable {
  sku: string;
  merchant_id: string;
  price: number;
  stock: number;
  sold: Generated<number>;
  /** As in {@link MerchantsTable}. */
  opened_at: string | null;
}

/**
 * - `pending`: placed, its units are taken.
 * - `paid`: exactly one payment is booked, and the merchant's quota charged.
 * - `cancelled`: by the buyer or because nobody paid in time; its units are given back. Final.
 */
export type OrderStatus = 'pending' | 'paid' | 'cancelled';

export interface OrdersTable {
  id: string;
  sku: string;
  merchant_id: string;
  quantity: number;
  amount: number;
  status: OrderStatus;
  /** The fencing token of the last holder that claimed this row; 0 before the first. */
  fence: Generated<number>;
  created_at: string;
  /** An order that is still pending then is cancelled. */
  expires_at: string;
  paid_at: string | null;
  cancelled_at: string | null;
}

export interface PaymentsTable {
  /** The provider's own id of the transaction, and the primary key: no transaction is booked twice. */
  transaction_id: string;
  order_id: string;
  provider: PaymentProvider;
  amount: number;
  fence: number;
  created_at: string;
}

export type PaymentProvider = 'wechat' | 'stripe' | 'open-api';

/** One row for every addition to a stock or a prepaid quota: its id lets it happen once. */
export interface GrantsTable {
  operation_id: string;
  gate: string;
  amount: number;
  created_at: string;
  /** When Redis had it, too; null while it may not. */
  applied_at: string | null;
}

/** One row for everything that was taken from one of Redis' gates or given back, in the order's own transaction. */
export interface JournalTable {
  /** The operation's id in Redis; of a return, `return:` and the id of what it gives back. */
  operation_id: string;
  /** The quota's key in Redis, e.g. `stock:sku-1` or `quota:merchant-1`. */
  gate: string;
  order_id: string;
  /** Above 0: taken; below: given back. */
  amount: number;
  created_at: string;
}

/** One row for every time that a callback's handler really ran, whatever came of it. */
export interface CallbackRunsTable {
  id: string;
  notification_id: string;
  order_id: string;
  created_at: string;
}

/** One row for every write that the database had to refuse: in good order this table is empty. */
export interface RefusedWritesTable {
  id: string;
  /** What was being written, e.g. a transaction id. */
  reference: string;
  reason: RefusalReason;
  created_at: string;
}

export type RefusalReason =
  'duplicate payment' | 'stale holder' | 'duplicate operation' | 'oversell' | 'overspend';

export interface ReconciliationsTable {
  id: number;
  /** What it is doing, in words. */
  step: string;
  done: number;
  total: number;
  started_at: string;
  finished_at: string | null;
  /** JSON; null while it runs. */
  report: string | null;
}
