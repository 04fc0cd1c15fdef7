import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.js';
import type { Gate } from '../gates/gate.js';
import { GatesService } from '../gates/gates.service.js';
import { bookedOperations, viewGate, type GateView } from './database-view.js';
import type { Difference, GateLine } from './report.js';

/** An operation is known by its id in Redis for a day; a little less, so that none is missed only for its age. */
const KNOWN_FOR_MS = 23 * 60 * 60 * 1_000;
const MOST_TRIES = 20;
/** A difference must still be there this many looks later. */
const LOOKS = 4;
const BETWEEN_LOOKS_MS = 100;
const AT_ONCE = 50;

export interface Comparison {
  line: GateLine;
  differences: Difference[];
  /** How much more Redis has taken than the database has booked; below 0: less. */
  drift: number;
}

/** Compares one gate in Redis with the database, while the shop is open. */
@Injectable()
export class GateComparison {
  constructor(
    private readonly database: Database,
    private readonly gates: GatesService,
  ) {}

  async compare(gate: Gate, signal?: AbortSignal): Promise<Comparison> {
    const { view, remaining, drift, settled } = await this.look(gate, signal);
    const { granted, orders, journal, booked } = view;
    const redis = remaining === null && drift === 0 ? null : booked + drift;
    const line = { gate: gate.key, granted, orders, journal, booked, redis, settled };
    const differences = inTheDatabase(gate.key, view);
    if (settled && drift !== 0) differences.push(...(await this.explain(gate, drift, remaining === null)));
    return { line, differences, drift: settled ? drift : 0 };
  }

  /**
   * What is under way at this moment only ever makes Redis look as if more were taken than is booked: taking goes to
   * Redis first, giving back and adding go to the database first. So of several looks, the one with the least is the
   * nearest to the truth. (A look counts only if nothing was booked during it.)
   */
  private async look(gate: Gate, signal?: AbortSignal): Promise<Look> {
    let least: Look | undefined;
    for (let tries = 0, looks = 0; tries < MOST_TRIES && looks < LOOKS; tries += 1) {
      if (tries > 0) await sleep(BETWEEN_LOOKS_MS, undefined, signal ? { signal } : {});
      const before = await viewGate(this.database, gate);
      const remaining = await this.gates.remaining(gate.key);
      const view = await viewGate(this.database, gate);
      const settled = before.bookings === view.bookings;
      const drift = view.granted - (remaining ?? 0) - view.booked;
      if (settled) looks += 1;
      if (!least?.settled || (settled && drift < least.drift)) least = { view, remaining, drift, settled };
      if (settled && drift === 0) break;
    }
    return least!;
  }

  /** Names the operations that Redis does not know as the journal does, and says what is left over. */
  private async explain(gate: Gate, drift: number, gone: boolean): Promise<Difference[]> {
    const { key, openedAt } = gate;
    if (gone)
      return [unexplained(key, drift, `Redis has no quota ${key}: the database has ${drift} left in it`)];
    const differences: Difference[] = [];
    const since = new Date(Date.now() - KNOWN_FOR_MS).toISOString();
    // What was booked before Redis' number was made from the database is in that number.
    const operations = await bookedOperations(
      this.database,
      key,
      openedAt && openedAt > since ? openedAt : since,
    );
    let explained = 0;
    for (let at = 0; at < operations.length; at += AT_ONCE) {
      const some = operations.slice(at, at + AT_ONCE);
      const states = await Promise.all(some.map(({ operationId }) => this.gates.stateOf(key, operationId)));
      for (const [index, { operationId, orderId, amount, returned }] of some.entries()) {
        if (!returned && states[index] === 'unknown') {
          explained -= amount;
          differences.push({
            kind: 'missing',
            gate: key,
            operationId,
            orderId,
            amount,
            text: `${key}: Redis has lost ${operationId}, which took ${amount} for order ${orderId}`,
          });
        } else if (returned && states[index] === 'taken') {
          explained += amount;
          differences.push({
            kind: 'not-given-back',
            gate: key,
            operationId,
            orderId,
            amount,
            text: `${key}: Redis has not given back ${amount} of ${operationId} for order ${orderId}`,
          });
        }
      }
    }
    const rest = drift - explained;
    if (rest > 0)
      differences.push(unexplained(key, rest, `${key}: Redis has ${rest} taken that no order has`));
    if (rest < 0)
      differences.push(unexplained(key, -rest, `${key}: Redis has ${-rest} left that are not there`));
    return differences;
  }
}

interface Look {
  view: GateView;
  remaining: number | null;
  drift: number;
  settled: boolean;
}

function inTheDatabase(gate: string, { orders, journal, booked }: GateView): Difference[] {
  const told = (amount: number, text: string): Difference => ({ kind: 'database', gate, amount, text });
  return [
    ...(booked === journal
      ? []
      : [told(Math.abs(booked - journal), `${gate}: ${booked} are counted, ${journal} are in the journal`)]),
    ...(orders === journal
      ? []
      : [told(Math.abs(orders - journal), `${gate}: the orders have ${orders}, the journal has ${journal}`)]),
  ];
}

const unexplained = (gate: string, amount: number, text: string): Difference => ({
  kind: 'unexplained',
  gate,
  amount,
  text,
});
