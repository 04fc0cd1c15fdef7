import type { StoreUnavailableError } from '../../errors.js';
import type {
  BeginReply,
  BeginRequest,
  CompleteReply,
  IdempotencyStore,
  OwnerRequest,
  RecordState,
  RenewReply,
} from '../backend.js';
import type { CleanUps } from './clean-ups.js';
import type { CommandArgument, Connection } from './connection.js';
import { RecordFinder } from './record-finder.js';
import { NOT_SENT, type Carrier, type ScriptRunner } from './script-runner.js';
import type { Script } from './script.js';
import { abandonRecordScript } from './scripts/abandon-record.lua.js';
import { beginScript } from './scripts/begin.lua.js';
import { completeScript } from './scripts/complete.lua.js';
import { forgetRecordScript } from './scripts/forget-record.lua.js';
import { waitingField } from './scripts/record-prelude.lua.js';
import { releaseRecordScript } from './scripts/release-record.lua.js';
import { renewScript } from './scripts/renew.lua.js';
import { UnansweredTries } from './unanswered-tries.js';

const CLEAN_UP_TRY_MS = 1_000;
const NOTHING = Buffer.alloc(0);

/** Idempotency records in Redis: one hash each. */
export class RedisIdempotencyStore implements IdempotencyStore {
  private readonly tries = new UnansweredTries();
  /** How long a begin or a renewal that is still under way could own its record. */
  private readonly leases = new WeakMap<Carrier, number>();
  private readonly finder: RecordFinder;

  constructor(
    private readonly connection: Connection,
    private readonly runner: ScriptRunner,
    private readonly cleanUps: CleanUps,
    /** The name of this process's inbox. */
    private readonly inbox: string,
  ) {
    this.finder = new RecordFinder(connection, runner);
  }

  async begin(request: BeginRequest, timeoutMs: number): Promise<BeginReply> {
    const { owner, leaseMs, ttlMs, fingerprint, queue = false } = request;
    const args = [owner, wholeMs(leaseMs), lifeMs(ttlMs, leaseMs), fingerprint ?? ''];
    if (queue) args.push(this.inbox);
    const reply = await this.own(beginScript, request, args, timeoutMs);
    return toBeginReply(reply as [number, number, number | Buffer]);
  }

  async renew(request: OwnerRequest & { leaseMs: number }, timeoutMs: number): Promise<RenewReply> {
    const { owner, attempt, fingerprint, ttlMs, leaseMs } = request;
    const args = [owner, wholeMs(leaseMs), lifeMs(ttlMs, leaseMs), fingerprint ?? '', attempt];
    const reply = await this.own(renewScript, request, args, timeoutMs);
    return reply === 1 ? 'ok' : reply === 2 ? 'recreated' : 'lost';
  }

  async complete(request: OwnerRequest & { payload: Buffer }, timeoutMs: number): Promise<CompleteReply> {
    const { recordKey, owner, attempt, fingerprint, ttlMs, payload } = request;
    const reply = await this.run(
      completeScript,
      recordKey,
      [owner, wholeMs(ttlMs), fingerprint ?? '', attempt, payload],
      timeoutMs,
    );
    // whatever comes late finds a record that is done, and changes nothing
    this.tries.take(idOf(request));
    return toCompleteReply(reply as [number, Buffer?]);
  }

  async release(
    { recordKey, owner }: { recordKey: string; owner: string },
    timeoutMs: number,
  ): Promise<'ok' | 'lost' | 'gone'> {
    const reply = await this.run(releaseRecordScript, recordKey, [owner], timeoutMs);
    return reply === 1 ? 'ok' : reply === 0 ? 'gone' : 'lost';
  }

  abandon(request: { recordKey: string; owner: string; ttlMs: number }): Promise<void> {
    const { recordKey, owner, ttlMs } = request;
    const tries = this.tries.take(idOf(request));
    const leaseMs = Math.max(0, ...tries.map((carrier) => this.leases.get(carrier) ?? 0));
    const undo = (carrier: Carrier): Promise<unknown> =>
      this.runner.run(abandonRecordScript, [this.nameOf(recordKey)], [owner, wholeMs(ttlMs)], {
        timeoutMs: CLEAN_UP_TRY_MS,
        about: recordKey,
        carrier,
      });
    return this.cleanUps.add(undo, tries, leaseMs);
  }

  async leave(recordKey: string, timeoutMs: number): Promise<void> {
    const args = [this.nameOf(recordKey), waitingField(this.inbox)];
    // what is left behind is taken out when the record ends
    await this.runner.command('hdel', args, { timeoutMs, about: recordKey }).catch(() => undefined);
  }

  inspect(recordKey: string, timeoutMs: number): Promise<RecordState | null> {
    return this.finder.inspect(recordKey, timeoutMs);
  }

  list(prefix: string, pattern: string, timeoutMs: number): AsyncIterable<RecordState> {
    return this.finder.list(prefix, pattern, timeoutMs);
  }

  async forget(recordKey: string, timeoutMs: number): Promise<boolean> {
    return (await this.run(forgetRecordScript, recordKey, [], timeoutMs)) === 1;
  }

  /** Runs what makes its sender the owner: a try without an answer may still do so, and is remembered. */
  private async own(
    script: Script,
    request: { recordKey: string; owner: string; leaseMs: number },
    args: readonly CommandArgument[],
    timeoutMs: number,
  ): Promise<unknown> {
    const { recordKey, leaseMs } = request;
    const id = idOf(request);
    const carrier: Carrier = { epoch: NOT_SENT, answered: false };
    this.leases.set(carrier, leaseMs);
    this.tries.began(id, carrier);
    try {
      const reply = await this.runner.run(script, [this.nameOf(recordKey)], args, {
        timeoutMs,
        about: recordKey,
        buffers: true,
        carrier,
      });
      this.tries.answered(id, carrier);
      return reply;
    } catch (error) {
      if ((error as StoreUnavailableError).outcome === 'notApplied') this.tries.answered(id, carrier);
      throw error;
    }
  }

  private run(
    script: Script,
    recordKey: string,
    args: readonly CommandArgument[],
    timeoutMs: number,
  ): Promise<unknown> {
    return this.runner.run(script, [this.nameOf(recordKey)], args, {
      timeoutMs,
      about: recordKey,
      buffers: true,
    });
  }

  private nameOf(recordKey: string): string {
    return this.connection.keyPrefix + recordKey;
  }
}

function toBeginReply([answer, attempt, rest]: [number, number, number | Buffer]): BeginReply {
  switch (answer) {
    case 1:
      return { status: 'new', attempt };
    case 2:
      return { status: 'takeover', attempt };
    case 3:
      return { status: 'replay', attempt, payload: rest as Buffer };
    case 4:
      return { status: 'busy', attempt, leaseMs: rest as number };
    default:
      return { status: 'mismatch' };
  }
}

function toCompleteReply([answer, payload = NOTHING]: [number, Buffer?]): CompleteReply {
  switch (answer) {
    case 1:
      return { status: 'ok' };
    case 2:
      return { status: 'duplicate' };
    case 3:
      return { status: 'recreated' };
    case -1:
      return { status: 'lostDone', payload };
    default:
      return { status: 'lost' };
  }
}

function idOf({ recordKey, owner }: { recordKey: string; owner: string }): string {
  return `${owner} ${recordKey}`;
}

/** A record never ends before its owner's lease. */
function lifeMs(ttlMs: number, leaseMs: number): number {
  return wholeMs(Math.max(ttlMs, leaseMs));
}

function wholeMs(ms: number): number {
  return Math.max(1, Math.ceil(ms));
}
