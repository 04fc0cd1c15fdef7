import { randomUUID } from 'node:crypto';
import { Injectable, Logger } from '@nestjs/common';
import { Database } from './database.js';
import type { RefusalReason } from './schema.js';

/**
 * Keeps what the database had to refuse. A constraint that stops a write has done its work, but something above
 * it has not: a platform wants to see that, so it is a row and a warning, never only a caught error.
 */
@Injectable()
export class RefusedWrites {
  private readonly logger = new Logger(RefusedWrites.name);

  constructor(private readonly database: Database) {}

  async record(reference: string, reason: RefusalReason): Promise<void> {
    this.logger.warn(`The database refused ${reference}: ${reason}.`);
    const row = { id: randomUUID(), reference, reason, created_at: new Date().toISOString() };
    await this.database.run((db) => db.insertInto('refused_writes').values(row).execute());
  }
}
