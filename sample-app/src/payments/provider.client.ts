import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';

/**
 * The place where a platform asks its provider whether the transaction is real, or its risk service whether it is
 * wanted. The sample has nobody to ask: it takes the time that such a call takes, because that time, between
 * looking at the order and writing it, is where every race happens.
 */
@Injectable()
export class ProviderClient {
  private readonly latencyMs = Number(process.env.PROVIDER_LATENCY_MS ?? 20);

  async confirm(_transactionId: string, signal?: AbortSignal): Promise<void> {
    // The lock's signal stops the call when the lock is lost: its answer could not be used any more.
    await sleep(this.latencyMs, undefined, signal ? { signal } : {});
  }
}
