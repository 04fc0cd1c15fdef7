import type { Redis } from 'ioredis';
import { outsideCallChain } from '../../outside-call-chain.js';
import type { Inbox, InboxGrant, LeaseRef } from '../backend.js';
import type { Connection, ProblemListener } from './connection.js';
import { RECORD_MESSAGE } from './scripts/record-prelude.lua.js';
import { isReplyError, replyCode } from './store-errors.js';

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 1_000;
/** Rights may be given later; nobody waits for it. */
const FORBIDDEN_PAUSE_MS = 60_000;
/** To connect and subscribe, or to answer a ping. */
const ANSWER_WITHIN_MS = 3_000;
/** A connection on which only messages come says nothing by its silence: it may be dead. */
const PING_EVERY_MS = 10_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Token, first fencing token (0: taken away by an operator), Redis's time in microseconds, the lock's name. */
const LOCK_MESSAGE = /^(\S{36}) (\d{1,16}) (\d{1,16}) (.+)$/s;

/**
 * The one channel on which this process hears that a lock was passed on to it, or that a record has ended which it
 * waits for, by a connection of its own. Once
 * opened, it is opened again for ever; a subscription is made anew after every connection.
 */
export class RedisInbox implements Inbox {
  private current: Inbox['state'] = 'closed';
  private client: Redis | undefined;
  private opened = false;
  private closed = false;
  private failures = 0;
  private forbiddenTold = false;
  private timer: NodeJS.Timeout | undefined;
  private readonly waiters = new Set<() => void>();
  private readonly grantListeners = new Set<(grant: InboxGrant) => void>();
  private readonly takenListeners = new Set<(lease: LeaseRef) => void>();
  private readonly recordListeners = new Set<(recordKey: string) => void>();
  private readonly listeningListeners = new Set<() => void>();

  constructor(
    private readonly connection: Connection,
    private readonly channel: string,
    private readonly onProblem: ProblemListener,
  ) {}

  get state(): Inbox['state'] {
    return this.current;
  }

  open(timeoutMs: number): Promise<void> {
    if (this.current !== 'closed' || this.closed) return Promise.resolve();
    if (!this.opened) {
      this.opened = true;
      outsideCallChain(() => this.connect());
    }
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.waiters.delete(done);
        resolve();
      };
      const timer = setTimeout(done, Math.min(timeoutMs, LONGEST_TIMER_MS));
      timer.unref();
      this.waiters.add(done);
    });
  }

  onGrant(listener: (grant: InboxGrant) => void): () => void {
    return listenTo(this.grantListeners, listener);
  }

  onForceRelease(listener: (lease: LeaseRef) => void): () => void {
    return listenTo(this.takenListeners, listener);
  }

  onRecordEnded(listener: (recordKey: string) => void): () => void {
    return listenTo(this.recordListeners, listener);
  }

  onListening(listener: () => void): () => void {
    return listenTo(this.listeningListeners, listener);
  }

  /** Closes the connection for good. May be called again. */
  close(): void {
    this.closed = true;
    this.current = 'closed';
    clearTimeout(this.timer);
    this.client?.disconnect();
    this.client = undefined;
    this.settle();
  }

  private connect(): void {
    const client = this.connection.openSubscriber();
    if (!client) return this.again(FIRST_PAUSE_MS);
    this.client = client;
    // what happened shows in the promises below, and in 'end'
    client.on('error', () => undefined);
    client.on('message', (_channel: string, text: string) => this.heard(text));
    client.once('end', () => this.gaveUp(client));
    const limit = setTimeout(() => this.gaveUp(client), ANSWER_WITHIN_MS);
    limit.unref();
    client
      .connect()
      .then(() => client.subscribe(this.channel))
      .then(
        () => this.listens(client),
        (error: Error) => this.gaveUp(client, error),
      )
      .finally(() => clearTimeout(limit));
  }

  private listens(client: Redis): void {
    if (client !== this.client) return;
    this.failures = 0;
    this.forbiddenTold = false;
    this.current = 'listening';
    this.timer = setTimeout(() => this.ping(client), PING_EVERY_MS);
    this.timer.unref();
    this.settle();
    for (const listener of this.listeningListeners) listener();
  }

  private ping(client: Redis): void {
    if (client !== this.client) return;
    const limit = setTimeout(() => this.gaveUp(client), ANSWER_WITHIN_MS);
    limit.unref();
    client.ping().then(
      () => {
        clearTimeout(limit);
        if (client !== this.client) return;
        this.timer = setTimeout(() => this.ping(client), PING_EVERY_MS);
        this.timer.unref();
      },
      (error: Error) => {
        clearTimeout(limit);
        this.gaveUp(client, error);
      },
    );
  }

  /** This connection is of no use (any more): another one takes its place. */
  private gaveUp(client: Redis, error?: Error): void {
    if (client !== this.client) return;
    this.client = undefined;
    clearTimeout(this.timer);
    client.disconnect();
    if (error && isReplyError(error) && replyCode(error.message) === 'NOPERM') {
      this.current = 'forbidden';
      this.tellForbidden(error);
      this.settle();
      return this.again(FORBIDDEN_PAUSE_MS);
    }
    this.current = 'closed';
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(this.failures++, 10), LONGEST_PAUSE_MS);
    this.again(pauseMs * (0.75 + Math.random() / 4));
  }

  private again(pauseMs: number): void {
    this.timer = setTimeout(() => this.connect(), pauseMs);
    this.timer.unref();
  }

  private tellForbidden(error: Error): void {
    if (this.forbiddenTold) return;
    this.forbiddenTold = true;
    this.onProblem(
      `The Redis user may not subscribe to ${this.channel}: who waits here for a lock or a reply must poll for it, and may starve beside others. Allow it the channels nestjs-redis-lock:* (ACL).`,
      error,
    );
  }

  private heard(text: string): void {
    const { keyPrefix } = this.connection;
    if (text.startsWith(RECORD_MESSAGE)) {
      const record = text.slice(RECORD_MESSAGE.length);
      if (!record.startsWith(keyPrefix)) return;
      for (const listener of this.recordListeners) listener(record.slice(keyPrefix.length));
      return;
    }
    const [, token, first, time, lock] = LOCK_MESSAGE.exec(text) ?? [];
    if (!token || !lock?.startsWith(keyPrefix)) return;
    const key = lock.slice(keyPrefix.length);
    if (first === '0') {
      for (const listener of this.takenListeners) listener({ key, token });
      return;
    }
    for (const listener of this.grantListeners) {
      listener({ key, token, fencingToken: Number(first), time: Number(time) });
    }
  }

  private settle(): void {
    for (const done of [...this.waiters]) done();
  }
}

/** Every registration is one of its own, so that taking one away leaves the others. */
function listenTo<L extends (...args: never[]) => void>(listeners: Set<L>, listener: L): () => void {
  const own = ((...args: never[]) => listener(...args)) as L;
  listeners.add(own);
  return () => void listeners.delete(own);
}
