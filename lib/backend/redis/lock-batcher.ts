import type { StoreUnavailableError } from '../../errors.js';
import { outsideCallChain } from '../../outside-call-chain.js';
import type { AcquireReply, LeaseRef, ReleaseReply } from '../backend.js';
import { fenceKey, queueKey } from './keys.js';
import { NOT_SENT, type Carrier, type ScriptRunner } from './script-runner.js';
import { manyScript } from './scripts/many.lua.js';
import { aboutKey } from './store-errors.js';

/**
 * At most 192 keys in one script would be 64, three keys for each. Half of that lets Redis work through one script
 * while this process makes use of the answers to another.
 */
const MOST_PER_BATCH = 32;

/** What operations must share to go in one script. */
export interface BatchTerms {
  leaseMs: number;
  fenceLifeMs: number;
  timeoutMs: number;
  /** Of a Cluster; else 0. */
  slot: number;
}

/** Asks by itself what is not simple, in what is left of its time. */
type AskAlone<T> = (timeoutMs: number) => Promise<T>;

interface Operation<T> extends LeaseRef {
  lock: string;
  alone: AskAlone<T>;
  resolve: (answer: T | Promise<T>) => void;
  reject: (error: StoreUnavailableError) => void;
}

interface Batch extends BatchTerms {
  acquires: Array<Operation<AcquireReply>>;
  releases: Array<Operation<ReleaseReply>>;
  carrier: Carrier;
}

/**
 * Collects what is asked in one tick while other answers are awaited, and sends it as one script: with many locks
 * in flight, most of what a lock costs is the way into Lua and back.
 */
export class LockBatcher {
  private batches: Batch[] = [];
  private readonly locks = new Set<string>();
  private inFlight = 0;

  constructor(private readonly runner: ScriptRunner) {}

  /** Nothing is awaited: what is asked now is sent at once. */
  get isIdle(): boolean {
    return this.inFlight === 0;
  }

  /** An operation was sent; {@link ended} must follow. */
  began(): void {
    this.inFlight++;
  }

  ended(): void {
    this.inFlight--;
  }

  acquire(
    lease: LeaseRef,
    lock: string,
    terms: BatchTerms,
    alone: AskAlone<AcquireReply>,
  ): { answer: Promise<AcquireReply>; carrier: Carrier } {
    const { acquires, carrier } = this.batchFor(lock, terms);
    const { key, token } = lease;
    const answer = new Promise<AcquireReply>((resolve, reject) =>
      acquires.push({ key, token, lock, alone, resolve, reject }),
    );
    return { answer, carrier };
  }

  release(
    { key, token }: LeaseRef,
    lock: string,
    terms: BatchTerms,
    alone: AskAlone<ReleaseReply>,
  ): Promise<ReleaseReply> {
    const { releases } = this.batchFor(lock, terms);
    return new Promise((resolve, reject) => releases.push({ key, token, lock, alone, resolve, reject }));
  }

  /** Sends what was collected. Whatever goes out by itself goes behind it: commands keep their order. */
  flush(): void {
    if (this.batches.length === 0) return;
    const { batches } = this;
    this.batches = [];
    this.locks.clear();
    for (const batch of batches) this.send(batch);
  }

  private batchFor(lock: string, terms: BatchTerms): Batch {
    // one script does not say which of two operations on one key was first
    if (this.locks.has(lock)) this.flush();
    if (this.batches.length === 0) outsideCallChain(() => process.nextTick(() => this.flush()));
    this.locks.add(lock);
    let batch = this.batches.find(
      (one) =>
        one.leaseMs === terms.leaseMs &&
        one.fenceLifeMs === terms.fenceLifeMs &&
        one.timeoutMs === terms.timeoutMs &&
        one.slot === terms.slot &&
        one.acquires.length + one.releases.length < MOST_PER_BATCH,
    );
    if (!batch) {
      batch = { ...terms, acquires: [], releases: [], carrier: { epoch: NOT_SENT, answered: false } };
      this.batches.push(batch);
    }
    return batch;
  }

  private send({ acquires, releases, leaseMs, fenceLifeMs, timeoutMs, carrier }: Batch): void {
    if (acquires.length + releases.length === 1) {
      // cheaper by its own script; and at once, for what follows must not overtake it
      for (const { alone, resolve } of acquires) resolve(alone(timeoutMs));
      for (const { alone, resolve } of releases) resolve(alone(timeoutMs));
      return;
    }
    const all = [...acquires, ...releases];
    const startedAt = performance.now();
    const leftMs = (): number => Math.max(1, timeoutMs - (performance.now() - startedAt));
    const keys = [
      ...acquires.map(({ lock }) => lock),
      ...acquires.map(({ lock }) => fenceKey(lock)),
      ...releases.map(({ lock }) => lock),
      ...all.map(({ lock }) => queueKey(lock)),
    ];
    const args = [acquires.length, leaseMs, fenceLifeMs, ...all.map(({ token }) => token)];
    this.began();
    this.runner.run(manyScript, keys, args, { timeoutMs, about: all.map(({ key }) => key), carrier }).then(
      (reply) => {
        this.ended();
        const [time, ...answers] = reply as [number, ...number[]];
        acquires.forEach(({ key, alone, resolve }, at) => {
          const first = answers[at]!;
          if (first === -1) resolve(alone(leftMs()));
          else if (first < 0) resolve({ status: 'busy', key, remainingMs: -3 - first, time });
          else resolve({ status: 'granted', fencingToken: first || time, time });
        });
        releases.forEach(({ alone, resolve }, at) => {
          const answer = answers[acquires.length + at]!;
          resolve(answer === -2 ? alone(leftMs()) : answer === 1 ? 'released' : 'foreign');
        });
      },
      (error: StoreUnavailableError) => {
        this.ended();
        for (const { key, reject } of all) reject(aboutKey(error, key));
      },
    );
  }
}
