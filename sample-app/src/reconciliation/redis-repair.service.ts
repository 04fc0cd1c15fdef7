import { Injectable } from '@nestjs/common';
import { QuotaService, isRedisLockError, type Lock } from 'nestjs-redis-lock';
import type { Gate } from '../gates/gate.js';
import { GatesService } from '../gates/gates.service.js';
import { GateComparison, type Comparison } from './gate-comparison.service.js';

/** Brings a gate in Redis to what the database has. Only Redis is changed, and only by amounts: the shop stays open. */
@Injectable()
export class RedisRepair {
  constructor(
    private readonly gates: GatesService,
    private readonly quotas: QuotaService,
    private readonly comparison: GateComparison,
  ) {}

  /** @returns what was done, in words. */
  async repair(gate: Gate, { differences }: Comparison, lock: Lock): Promise<string[]> {
    const done: string[] = [];
    for (const { kind, operationId, amount } of differences) {
      if (operationId === undefined) continue;
      lock.assertHeld();
      // Under its own id: from now on Redis knows it again, and a late repeat of it takes nothing.
      if (kind === 'missing' && (await this.takeAgain(gate, amount, operationId)))
        done.push(`${gate.key}: took ${operationId} again`);
      if (kind === 'not-given-back') {
        await this.gates.giveBack({ gate: gate.key, operationId });
        done.push(`${gate.key}: gave back ${operationId}`);
      }
    }
    // Looked at anew: the rest may have been settled meanwhile.
    const { drift } = await this.comparison.compare(gate, lock.signal);
    if (drift !== 0) done.push(await this.adjust(gate, drift, lock));
    return done;
  }

  private async takeAgain(gate: Gate, amount: number, operationId: string): Promise<boolean> {
    try {
      await this.gates.take({ gate: gate.key, amount, operationId });
      return true;
    } catch (error) {
      // Too little left, or given back by now: the rest is adjusted.
      if (!isRedisLockError(error, 'QUOTA_EXCEEDED') && !isRedisLockError(error, 'QUOTA_OPERATION'))
        throw error;
      return false;
    }
  }

  private async adjust(gate: Gate, drift: number, lock: Lock): Promise<string> {
    lock.assertHeld();
    // The run's own id: a repeat after a lost answer changes nothing.
    const operationId = `repair:${lock.fencingToken}:${gate.key}`;
    const current = await this.gates.find(gate.key);
    if (current && (await this.gates.open(current))) return `${gate.key}: made it from the database`;
    if (drift > 0) await this.quotas.grant(gate.key, drift, { operationId });
    else await this.quotas.deduct(gate.key, -drift, { operationId });
    return `${gate.key}: ${drift > 0 ? 'added' : 'took'} ${Math.abs(drift)}`;
  }
}
