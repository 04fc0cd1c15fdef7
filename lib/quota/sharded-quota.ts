import { randomUUID } from 'node:crypto';
import type { QuotaCall, QuotaReply } from '../backend/backend.js';
import type { CallLimits } from './quota-combiner.js';
import type { QuotaLines } from './quota-lines.js';
import { formatPlace, generationOf, parsePlace, type OperationPlace } from './operation-place.js';
import type { ShardGatherer } from './shard-gatherer.js';
import { sumOf, tooLate, type ShardLooks } from './shard-looks.js';
import type { ShardedKey } from './shard-plan.js';
import { assertTime, type ShardRequests, type Walk } from './shard-requests.js';

export interface ShardedQuotaParts {
  lines: QuotaLines;
  looks: ShardLooks;
  requests: ShardRequests;
  gatherer: ShardGatherer;
  operationTtlMs: number;
}

type Granted = Extract<QuotaReply, { status: 'granted' }>;
type Refusal = Extract<QuotaReply, { status: 'exceeded' | 'notFound' }>;

/**
 * Takes from, adds to and gives back to quotas that are spread over several keys.
 *
 * Why no operation is granted twice, whoever retries it, from wherever and however late: at each moment its home
 * record names at most one shard and generation that may grant it. A move to another one is made only after that
 * shard refused the generation, and it remembers that; so a request that was written with an older record in mind is
 * refused, although its shard may have enough again.
 */
export class ShardedQuota {
  private turn = 0;

  constructor(private readonly parts: ShardedQuotaParts) {}

  deduct(
    quota: ShardedKey,
    amount: number,
    operationId: string | undefined,
    limits: CallLimits,
  ): Promise<QuotaReply> {
    if (operationId === undefined) return this.deductAnywhere(quota, amount, limits);
    return this.deductOnce(this.walk(quota, amount, operationId, limits));
  }

  /** To one shard, so that it is one step: the operation's home, or each in turn. */
  grant(
    quota: ShardedKey,
    amount: number,
    operationId: string | undefined,
    limits: CallLimits,
  ): Promise<QuotaReply> {
    const { lines, requests } = this.parts;
    if (operationId === undefined) {
      return lines.submit(this.nextShard(quota), { kind: 'grant', amount }, limits, true);
    }
    return lines.submit(
      requests.homeKey(quota, operationId),
      { kind: 'grant', amount, operationId },
      limits,
      true,
    );
  }

  /** Returns what the operation took to where it came from, or makes sure that it never takes anything. */
  async refund(quota: ShardedKey, operationId: string, limits: CallLimits): Promise<QuotaReply> {
    const { requests, gatherer } = this.parts;
    const walk = this.walk(quota, 0, operationId, limits);
    for (;;) {
      assertTime(walk);
      const atHome = await requests.refundAtHome(walk);
      if (atHome.status !== 'elsewhere') return atHome;
      const place = parsePlace(atHome.place);
      if (place.kind === 'at') {
        const reply = await requests.giveBackAt(walk, place.shard, place.generation);
        if (reply.status === 'givenBack' || reply.status === 'unusable') return reply;
        // It holds nothing and never will, by this place: so the record may be closed, unless it has moved on.
        if ((await requests.move(walk, atHome.place, 'void')) === 'void') return { status: 'unknown' };
      } else if (place.kind === 'gather') {
        await gatherer.undo(walk, atHome.place);
      } else if (place.kind === 'gathered') {
        // From here on the operation counts as refunded, also if this process dies before the shards have it all.
        await requests.move(walk, atHome.place, formatPlace({ ...place, kind: 'returning' }));
      } else if (place.kind === 'returning') {
        const reply = await this.returnParts(walk, atHome.place, place);
        if (reply) return reply;
      }
    }
  }

  async remaining(quota: ShardedKey, limits: CallLimits): Promise<number | null> {
    const look = await this.parts.looks.look(quota, limits);
    return look.every((shard) => shard === null) ? null : sumOf(look);
  }

  /** Without an id no other process can ask for the same: each shard's answer is final before the next is asked. */
  private async deductAnywhere(quota: ShardedKey, amount: number, limits: CallLimits): Promise<QuotaReply> {
    const { lines, looks, gatherer } = this.parts;
    const call: QuotaCall = { kind: 'deduct', amount };
    let shard = this.nextShard(quota);
    for (;;) {
      const reply = await lines.submit(shard, call, limits, true);
      if (reply.status !== 'exceeded' && reply.status !== 'notFound') return reply;
      const survey = await looks.survey(quota, amount, limits);
      if (survey.kind === 'notFound') return { status: 'notFound' };
      if (survey.kind === 'short') return { status: 'exceeded', remaining: survey.remaining };
      if (survey.kind === 'fits') shard = quota.shards[survey.shard]!;
      if (survey.kind === 'scattered') {
        // a gathering needs a name: its parts must be found again
        const gathered = await gatherer.gather(this.walk(quota, amount, `call:${randomUUID()}`, limits), '');
        if (gathered) return gathered;
      }
      if (performance.now() >= limits.endAt) throw tooLate(quota);
    }
  }

  private async deductOnce(walk: Walk): Promise<QuotaReply> {
    let refusal: { place: string; reply: Refusal } | undefined;
    for (;;) {
      assertTime(walk);
      const atHome = await this.parts.requests.deductAtHome(walk);
      const refused = atHome.status === 'exceeded' || atHome.status === 'notFound';
      if (!refused && atHome.status !== 'elsewhere') return atHome;
      const place = refused ? '' : atHome.place;
      const granted = await this.atPlace(walk, place);
      if (granted) return granted;
      // There was too little at a moment since the record was read for the first time, and it has not moved: so it was
      // not this very operation, for another caller, that took what was missing.
      if (refusal && refusal.place === place) return refusal.reply;
      const next = await this.moveOn(walk, place);
      if (next?.status === 'granted') return next;
      refusal = next && { place, reply: next };
    }
  }

  /** What the shard that is named answers, unless it refuses; undefined to go on from there. */
  private async atPlace(walk: Walk, text: string): Promise<QuotaReply | undefined> {
    const place = parsePlace(text);
    switch (place.kind) {
      case 'at': {
        const reply = await this.parts.requests.deductAt(walk, place.shard, place.generation);
        return reply.status === 'exceeded' ? undefined : reply;
      }
      case 'gathered': {
        const { amount, remaining } = place;
        if (amount !== walk.amount) return { status: 'otherAmount', amount };
        return { status: 'granted', amount, remaining, replayed: true };
      }
      case 'returning':
        if (place.amount !== walk.amount) return { status: 'otherAmount', amount: place.amount };
        return { status: 'refunded', amount: place.amount };
      default:
        return undefined;
    }
  }

  /** Looks for a shard that has enough and moves the operation there; or says that there is too little. */
  private async moveOn(walk: Walk, from: string): Promise<Granted | Refusal | undefined> {
    const { requests, gatherer } = this.parts;
    const place = parsePlace(from);
    if (place.kind === 'gather') {
      await gatherer.undo(walk, from);
      return undefined;
    }
    const survey = await requests.survey(walk);
    switch (survey.kind) {
      case 'notFound':
        return { status: 'notFound' };
      case 'short':
        return { status: 'exceeded', remaining: survey.remaining };
      case 'fits': {
        const generation = generationOf(place) + 1;
        await requests.move(walk, from, formatPlace({ kind: 'at', shard: survey.shard, generation }));
        return undefined;
      }
      case 'scattered':
        return gatherer.gather(walk, from);
      case 'changed':
        return undefined;
    }
  }

  /** Each shard gives its part back once, however often this is done and by whom. */
  private async returnParts(
    walk: Walk,
    text: string,
    { amount, generation, shards }: Extract<OperationPlace, { kind: 'returning' }>,
  ): Promise<QuotaReply | undefined> {
    const { requests } = this.parts;
    const replies = await Promise.all(shards.map((shard) => requests.giveBackAt(walk, shard, generation)));
    const unusable = replies.find(({ status }) => status === 'unusable');
    if (unusable?.status === 'unusable') return unusable;
    const remaining = sumOf(await requests.look(walk));
    const refunded = `refunded:${amount}:${remaining}`;
    if ((await requests.move(walk, text, refunded)) !== refunded) return undefined;
    return { status: 'givenBack', amount, remaining, replayed: false };
  }

  private walk(quota: ShardedKey, amount: number, operationId: string, limits: CallLimits): Walk {
    const { operationTtlMs } = this.parts;
    return { quota, amount, operation: { operationId, operationTtlMs }, limits };
  }

  private nextShard({ shards }: ShardedKey): string {
    this.turn = (this.turn + 1) % 1_000_000;
    return shards[this.turn % shards.length]!;
  }
}
