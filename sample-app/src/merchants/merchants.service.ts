import { ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import { isRedisLockError, type QuotaExceededError } from 'nestjs-redis-lock';
import { Database } from '../database/database.js';
import { HOT_MERCHANT, HOT_MERCHANT_SHARDS, quotaGate, type Operation } from '../gates/gate.js';
import { GatesService } from '../gates/gates.service.js';

export interface MerchantLevel {
  id: string;
  /** How many paid orders are prepaid in all. */
  granted: number;
  /** How many of them the database has charged. */
  spent: number;
  /** What Redis would still grant; null when it knows no such quota. */
  remaining: number | null;
  /** Over how many keys of Redis the quota is spread. */
  shards: number;
}

/** The merchants and what they have prepaid: one unit per paid order. */
@Injectable()
export class MerchantsService {
  constructor(
    private readonly database: Database,
    private readonly gates: GatesService,
  ) {}

  /** Adds a merchant, or more quota. The same `operationId` adds once. */
  async topUp(id: string, amount: number, operationId: string): Promise<void> {
    await this.database.run((db) =>
      db
        .insertInto('merchants')
        .values({ id, granted: 0, opened_at: null })
        .onConflict((known) => known.doNothing())
        .execute(),
    );
    await this.gates.grow(quotaGate(id), amount, operationId);
  }

  /**
   * Charges one order to the merchant's prepaid quota, in Redis; the booking transaction books it. The order's id makes
   * the operation's: whichever entry point asks, however often, an order is charged once.
   *
   * One key per merchant, and no lock: a lock per platform, or per merchant, would let orders in one at a time.
   *
   * @throws ConflictException LOW_BALANCE with what remains.
   */
  async charge(merchantId: string, orderId: string): Promise<Operation> {
    const operation = { operationId: chargeOf(orderId), gate: quotaGate(merchantId), orderId, amount: 1 };
    try {
      await this.gates.take(operation);
    } catch (error) {
      if (!isRedisLockError(error, 'QUOTA_EXCEEDED')) throw error;
      throw lowBalance(merchantId, (error as QuotaExceededError).remaining);
    }
    return operation;
  }

  async list(): Promise<MerchantLevel[]> {
    const rows = await this.database.run((db) =>
      db.selectFrom('merchants').select(['id', 'granted', 'spent']).orderBy('id').execute(),
    );
    return Promise.all(rows.map((row) => this.level(row)));
  }

  /** @throws NotFoundException for an unknown merchant. */
  async find(id: string): Promise<MerchantLevel> {
    const row = await this.database.run((db) =>
      db.selectFrom('merchants').select(['id', 'granted', 'spent']).where('id', '=', id).executeTakeFirst(),
    );
    if (!row) {
      throw new NotFoundException({
        statusCode: 404,
        code: 'UNKNOWN_MERCHANT',
        message: `There is no merchant ${JSON.stringify(id)}.`,
      });
    }
    return this.level(row);
  }

  private async level(row: Pick<MerchantLevel, 'id' | 'granted' | 'spent'>): Promise<MerchantLevel> {
    const shards = row.id.startsWith(HOT_MERCHANT) ? HOT_MERCHANT_SHARDS : 1;
    return { ...row, remaining: await this.gates.remaining(quotaGate(row.id)), shards };
  }
}

export const chargeOf = (orderId: string): string => `charge:${orderId}`;

/** What is answered when a merchant's prepaid quota is used up: 409, and what remains. */
export const lowBalance = (merchantId: string, remaining: number): ConflictException =>
  new ConflictException({
    statusCode: 409,
    code: 'LOW_BALANCE',
    message: `Merchant ${merchantId} has ${remaining} prepaid orders left, and this one needs 1: top up.`,
    remaining,
  });
