import { Command, type Cluster, type Redis } from 'ioredis';
import { StoreUnavailableError } from '../../errors.js';
import { outsideCallChain } from '../../outside-call-chain.js';
import { isCluster, openClient, subscriberOf, type RedisSource } from './client-source.js';
import { isRefusal, toStoreError } from './store-errors.js';

/** Nothing at all was answered for this long, with commands waiting: the connection is taken for dead. */
const STUCK_AFTER_MS = 3_000;
const REOPEN_AFTER_MS = 1_000;
const CLOSE_LIMIT_MS = 1_000;

/** What a command may carry. */
export type CommandArgument = string | number | Buffer;

/** Tells of what an operator should know. */
export type ProblemListener = (message: string, error?: Error) => void;

interface ReadyWaiter {
  resolve: () => void;
  reject: (error: StoreUnavailableError) => void;
}

/**
 * Our own connection to Redis, beside the application's. It knows one connection from the next (an epoch), so
 * that a clean-up can be put behind the very command that it cleans up after.
 */
export class Connection {
  /** What the application's client puts before every key; our own client puts nothing. */
  readonly keyPrefix: string;
  readonly isCluster: boolean;
  private readonly client: Redis | Cluster;
  private readonly waiters = new Set<ReadyWaiter>();
  private readonly readyListeners = new Set<() => void>();
  private currentEpoch = 0;
  private usable = false;
  private opened = false;
  private closed = false;
  /** Whether the outage that goes on was already told. */
  private outageTold = false;
  private lastError: Error | undefined;
  private lastAnswerAt = 0;
  private readyAt = 0;
  private reopenTimer: NodeJS.Timeout | undefined;

  constructor(
    source: RedisSource | undefined,
    private readonly onProblem: ProblemListener,
  ) {
    const { client, keyPrefix } = outsideCallChain(() => openClient(source));
    this.client = client;
    this.keyPrefix = keyPrefix;
    this.isCluster = isCluster(client);
    client.on('error', (error: Error) => this.failed(error));
    client.on('ready', () => (isCluster(client) ? this.connectNodes(client) : this.selectDatabase(client)));
    client.on('close', () => this.becameClosed());
    client.on('end', () => this.ended());
    // a node of a Cluster that goes takes its connection's commands with it
    if (isCluster(client)) client.on('-node', () => this.currentEpoch++);
    // its slots may have moved to a server with another clock
    if (isCluster(client)) client.on('refresh', () => this.currentEpoch++);
  }

  /** Another number after every connection that closed. */
  get epoch(): number {
    return this.currentEpoch;
  }

  get isReady(): boolean {
    return this.usable && this.client.status === 'ready' && !this.closed;
  }

  /** Starts to connect, and goes on for ever; may be called again. */
  open(): void {
    if (this.opened || this.closed) return;
    this.opened = true;
    // a failure is told by the event 'error'; ioredis tries again by itself
    void outsideCallChain(() => this.client.connect().catch(() => undefined));
  }

  /** Calls back at every (re)connection, outside every call chain. */
  onReady(listener: () => void): void {
    this.readyListeners.add(listener);
  }

  /** Resolves once commands can be sent. */
  whenReady(timeoutMs: number): Promise<void> {
    if (this.isReady) return Promise.resolve();
    if (this.closed) return Promise.reject(this.closedError());
    this.open();
    // no use to wait: it asks for another password at every try
    if (this.lastError && isRefusal(this.lastError)) return Promise.reject(this.notReady());
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        this.waiters.delete(waiter);
      };
      const waiter: ReadyWaiter = {
        resolve: () => (end(), resolve()),
        reject: (error) => (end(), reject(error)),
      };
      const timer = setTimeout(() => waiter.reject(this.notReady()), Math.min(timeoutMs, 2 ** 31 - 1));
      timer.unref();
      this.waiters.add(waiter);
    });
  }

  /**
   * Sends one command: to where its keys lie, or to this node. Must only be called while {@link isReady}; the
   * promise stays until the answer comes or the connection closes.
   */
  send(name: string, args: readonly CommandArgument[], buffers: boolean, node?: Redis): Promise<unknown> {
    const command = new Command(name, args as CommandArgument[], { replyEncoding: buffers ? null : 'utf8' });
    void (node ?? this.client).sendCommand(command);
    return command.promise;
  }

  /** Says that a command was answered: the connection lives. */
  answered(): void {
    this.lastAnswerAt = performance.now();
  }

  /** Says that a command sent at this time was not answered: a connection on which nothing comes is given up. */
  unanswered(sentAt: number): void {
    const now = performance.now();
    if (now - Math.max(this.lastAnswerAt, this.readyAt) < STUCK_AFTER_MS || !this.isReady) return;
    if (sentAt < this.readyAt) return;
    this.client.disconnect(true);
  }

  /** The servers that keys lie on, for what must ask each: the masters of a Cluster. */
  nodes(): Array<Redis | undefined> {
    return isCluster(this.client) ? this.client.nodes('master') : [undefined];
  }

  /**
   * One connection more, for messages, not connected yet and never reconnecting by itself; the caller closes it.
   * In a Cluster to any node, for a message reaches them all; undefined while none is known.
   */
  openSubscriber(): Redis | undefined {
    const { client } = this;
    if (!isCluster(client)) return subscriberOf(client);
    const nodes = client.nodes('master');
    const node = nodes[Math.floor(Math.random() * nodes.length)];
    return node && subscriberOf(node);
  }

  closedError(): StoreUnavailableError {
    return new StoreUnavailableError('The store is closed: the application is shutting down.', {
      outcome: 'notApplied',
      retryable: false,
    });
  }

  /** Why nothing can be sent now. */
  notReady(keys: string | readonly string[] = []): StoreUnavailableError {
    if (this.closed) return this.closedError();
    if (!this.lastError) {
      return new StoreUnavailableError('Redis is not connected yet.', {
        keys,
        outcome: 'notApplied',
        retryable: true,
      });
    }
    if (isRefusal(this.lastError)) return toStoreError(this.lastError, keys, false);
    return new StoreUnavailableError(
      `Redis cannot be reached: ${this.lastError.message || this.lastError.name}.`,
      {
        keys,
        cause: this.lastError,
        outcome: 'notApplied',
        retryable: true,
      },
    );
  }

  /** Closes the connection. Never rejects; may be called again. */
  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    clearTimeout(this.reopenTimer);
    for (const waiter of [...this.waiters]) waiter.reject(this.closedError());
    const { status } = this.client;
    if (!this.opened || status === 'end') return;
    const ended = new Promise<void>((resolve) => this.client.once('end', resolve));
    const noNode = isCluster(this.client) && this.client.nodes().length === 0;
    this.client.disconnect();
    // between two tries to connect, or before a Cluster has a node, there is no socket whose end could be told
    if (noNode || status === 'reconnecting' || status === 'close' || status === 'wait') return;
    // not unref'd: with nothing else alive the process would end here, before whoever awaits this
    let limit: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      limit = setTimeout(resolve, CLOSE_LIMIT_MS);
    });
    await Promise.race([ended, late]);
    clearTimeout(limit);
  }

  /** A Cluster's client is ready before its connections are, and refuses commands until then. */
  private connectNodes(cluster: Cluster): void {
    const connecting = cluster.nodes('master').map((node) => connected(node));
    void Promise.all(connecting).then(() => {
      if (cluster.status === 'ready') this.becameReady();
    });
  }

  /**
   * ioredis goes on in database 0 when SELECT is refused, and only reports it: locks would be taken where nobody
   * else looks. So the connection counts once its database is confirmed.
   */
  private selectDatabase(client: Redis): void {
    const { epoch } = this;
    const database = client.options.db ?? 0;
    if (database === 0) return this.becameReady();
    this.send('select', [database], false).then(
      () => {
        if (epoch === this.epoch && client.status === 'ready') this.becameReady();
      },
      // without an answer the connection closed: the next one is asked again
      (error: Error) => this.failed(error),
    );
  }

  private becameClosed(): void {
    this.usable = false;
    this.currentEpoch++;
  }

  private becameReady(): void {
    this.usable = true;
    this.lastError = undefined;
    this.readyAt = performance.now();
    if (this.outageTold) {
      this.outageTold = false;
      this.onProblem('Redis can be reached again.');
    }
    for (const waiter of [...this.waiters]) waiter.resolve();
    for (const listener of this.readyListeners) listener();
  }

  private failed(error: Error): void {
    if (this.closed) return;
    this.lastError = error;
    if (!this.outageTold) {
      this.outageTold = true;
      this.onProblem(this.notReady().message, error);
    }
    if (!isRefusal(error)) return;
    for (const waiter of [...this.waiters]) waiter.reject(this.notReady());
  }

  /** ioredis gave up (all Sentinels gone, say): begin again. */
  private ended(): void {
    if (this.closed || this.reopenTimer) return;
    this.reopenTimer = outsideCallChain(() =>
      setTimeout(() => {
        this.reopenTimer = undefined;
        this.client.connect().catch(() => undefined);
      }, REOPEN_AFTER_MS),
    );
    this.reopenTimer.unref();
  }
}

/** Resolves when the node's connection is there, or has failed: ioredis then finds the new owner of its slots. */
function connected(node: Redis): Promise<void> {
  if (node.status === 'ready') return Promise.resolve();
  return new Promise((resolve) => {
    node.once('ready', () => resolve());
    node.once('end', () => resolve());
    if (node.status === 'wait') node.connect().catch(() => undefined);
  });
}
