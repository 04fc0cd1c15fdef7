import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.js';
import type { Gate } from '../gates/gate.js';
import { GatesService } from '../gates/gates.service.js';
import { bookedOperations, viewGate, type BookedOperation, type GateView } from './database-view.js';
import type { Difference, GateLine } from './report.js';

/** An operation is known by its id in Redis for a day; a little less, so that none is missed only for its age. */
const KNOWN_FOR_MS = 23 * 60 * 60 * 1_000;
/** What was booked as given back reaches Redis within this, or somebody died in between. */
const GIVEN_BACK_WITHIN_MS = 5_000;
const LOOKS = 4;
const MOST_TRIES = 50;
const BETWEEN_LOOKS_MS = 50;
const AT_ONCE = 50;

export interface Comparison {
  line: GateLine;
  differences: Difference[];
  /** How much more Redis has taken than the database has booked, for certain; below 0: less. */
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
    const { view, remaining, drift, quiet } = await this.look(gate, signal);
    const { granted, orders, journal, booked } = view;
    const redis = remaining === null && drift === 0 ? null : booked + drift;
    return {
      line: { gate: gate.key, granted, orders, journal, booked, redis, settled: quiet },
      differences: [
        ...inTheDatabase(gate.key, view),
        ...(drift === 0 ? [] : await this.explain(gate, { view, remaining, drift, quiet })),
      ],
      drift: quiet ? drift : Math.min(drift, 0),
    };
  }

  /**
   * What is under way at this moment only ever makes Redis look as if more were taken than is booked: taking goes to
   * Redis first, giving back and adding go to the database first. So of several looks, the one with the least is the
   * nearest to the truth; and it is the truth, if nothing was booked all the while. A look counts only if nothing was
   * booked during it: else the two numbers do not belong together.
   */
  private async look(gate: Gate, signal?: AbortSignal): Promise<Look> {
    const looks: Look[] = [];
    let view = await viewGate(this.database, gate);
    const atFirst = view.bookings;
    for (let tries = 0; tries < MOST_TRIES && looks.length < LOOKS; tries += 1) {
      if (tries > 0) {
        await sleep(BETWEEN_LOOKS_MS, undefined, signal ? { signal } : {});
        view = await viewGate(this.database, gate);
      }
      const remaining = await this.gates.remaining(gate.key);
      const after = await viewGate(this.database, gate);
      if (after.bookings !== view.bookings) continue;
      const drift = view.granted - (remaining ?? 0) - view.booked;
      if (drift === 0) return { view, remaining, drift, quiet: true };
      looks.push({ view, remaining, drift, quiet: view.bookings === atFirst });
    }
    if (looks.length === 0) return { view, remaining: null, drift: 0, quiet: false };
    const least = looks.reduce((one, other) => (other.drift < one.drift ? other : one));
    return { ...least, quiet: looks.every(({ quiet }) => quiet) };
  }

  /** Names the operations that Redis does not know as the journal does, and says what is left over. */
  private async explain(gate: Gate, { drift, remaining, quiet }: Look): Promise<Difference[]> {
    const { key } = gate;
    if (remaining === null)
      return [unexplained(key, drift, `Redis has no quota ${key}: the database has ${drift} left in it`)];
    const named: Difference[] = [];
    for (const [operation, state] of await this.statesOf(gate)) {
      const { operationId, orderId, amount, returnedAt } = operation;
      const about = { gate: key, operationId, orderId, amount };
      if (returnedAt === null && state === 'unknown') {
        const text = `${key}: Redis has lost ${operationId}, which took ${amount} for order ${orderId}`;
        named.push({ kind: 'missing', ...about, text });
      } else if (returnedAt !== null && state === 'taken' && (quiet || isOld(returnedAt))) {
        const text = `${key}: Redis has not given back ${amount} of ${operationId} for order ${orderId}`;
        named.push({ kind: 'not-given-back', ...about, text });
      }
    }
    const explained = named.reduce(
      (sum, { kind, amount }) => sum + (kind === 'missing' ? -amount : amount),
      0,
    );
    const rest = drift - explained;
    if (rest < 0) named.push(unexplained(key, -rest, `${key}: Redis has ${-rest} left that are not there`));
    // With orders coming in, this is what is under way.
    if (rest > 0 && quiet)
      named.push(unexplained(key, rest, `${key}: Redis has ${rest} taken that no order has`));
    return named;
  }

  private async statesOf({ key, openedAt }: Gate): Promise<[BookedOperation, string][]> {
    const since = new Date(Date.now() - KNOWN_FOR_MS).toISOString();
    // What was booked before Redis' number was made from the database is in that number, without its id.
    const from = openedAt !== null && openedAt > since ? openedAt : since;
    const operations = await bookedOperations(this.database, key, from);
    const states: [BookedOperation, string][] = [];
    for (let at = 0; at < operations.length; at += AT_ONCE) {
      const some = operations.slice(at, at + AT_ONCE);
      states.push(
        ...(await Promise.all(
          some.map(async (one): Promise<[BookedOperation, string]> => [one, await this.gates.stateOf(one)]),
        )),
      );
    }
    return states;
  }
}

interface Look {
  view: GateView;
  remaining: number | null;
  drift: number;
  /** Nothing was booked since the first look. */
  quiet: boolean;
}

const isOld = (time: string): boolean => Date.now() - Date.parse(time) > GIVEN_BACK_WITHIN_MS;

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
