import type { Generated } from 'kysely';

/**
 * The tables as Kysely sees them. Money is kept in the smallest unit (cents), times as ISO 8601 text: both read
 * the same from the embedded database and from Postgres.
 */
export interface Schema {
  orders: OrdersTable;
  payments: PaymentsTable;
  inventory: InventoryTable;
  stock_journal: StockJournalTable;
  callback_runs: CallbackRunsTable;
  refused_writes: RefusedWritesTable;
}

export type OrderStatus = 'pending' | 'paid';

export interface OrdersTable {
  id: string;
  sku: string;
  quantity: number;
  amount: number;
  status: OrderStatus;
  /** The fencing token of the last holder that claimed this row; 0 before the first. */
  fence: Generated<number>;
  created_at: string;
  paid_at: string | null;
}

export interface PaymentsTable {
  /** The provider's own id of the transaction, and the primary key: no transaction is booked twice. */
  transaction_id: string;
  order_id: string;
  amount: number;
  fence: number;
  created_at: string;
}

export interface InventoryTable {
  sku: string;
  price: number;
  stock: number;
  sold: Generated<number>;
}

/** One row for every deduction that Redis granted and the database booked. */
export interface StockJournalTable {
  operation_id: string;
  sku: string;
  order_id: string;
  quantity: number;
  created_at: string;
}

/** One row for every time that the callback's handler really ran, whatever came of it. */
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

export type RefusalReason = 'duplicate payment' | 'stale holder' | 'duplicate operation' | 'oversell';
