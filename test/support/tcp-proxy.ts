import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { seededRandom } from './random.js';

/** `up`: from the client to the server; `down`: the replies. */
export type Direction = 'up' | 'down';

/** What the proxy does with bytes of one direction. */
export type Fault =
  | { kind: 'pass' }
  /** Bytes arrive in order, this much later. */
  | { kind: 'delay'; ms: number }
  /** Bytes vanish and the connection closes; with `times`, only so often, then pass. */
  | { kind: 'dropAndClose'; times: number }
  /** Bytes vanish; the connection stays. */
  | { kind: 'swallow' }
  /** This share of what arrives vanishes; the connection stays. */
  | { kind: 'lose'; share: number; random: () => number }
  /** After so many bytes, counted over all connections, the connection that carried the last closes. */
  | { kind: 'closeAfter'; bytes: number };

/** `messages`: the connections that subscribe; `commands`: the others. */
export type Kind = 'messages' | 'commands';

const PASS: Fault = { kind: 'pass' };

/** A TCP proxy between client and server that makes the network misbehave on purpose. */
export class TcpProxy {
  readonly port: number;
  readonly url: string;
  private readonly faults: Record<Direction, Fault> = { up: PASS, down: PASS };
  private readonly pairs = new Set<Pair>();
  private readonly watchers = new Set<{ text: string; resolve: () => void }>();
  private closed = false;
  private kind: Kind | undefined;
  private chaosTimer?: NodeJS.Timeout;

  private constructor(
    private readonly server: Server,
    private readonly targetPort: number,
  ) {
    this.port = (server.address() as AddressInfo).port;
    this.url = `redis://127.0.0.1:${this.port}`;
    server.on('connection', (client) => this.accept(client));
  }

  static start(targetPort: number): Promise<TcpProxy> {
    return new Promise((resolve, reject) => {
      const server = createServer();
      server.once('error', reject);
      server.listen(0, '127.0.0.1', () => resolve(new TcpProxy(server, targetPort)));
    });
  }

  /** How many connections are open. */
  get connections(): number {
    return this.pairs.size;
  }

  /** Lets everything through again (of this direction, or both), bytes that wait included. */
  pass(direction?: Direction): void {
    this.set(PASS, direction);
  }

  /** Makes bytes arrive `ms` later, in order. */
  delay(ms: number, direction?: Direction): void {
    this.set({ kind: 'delay', ms }, direction);
  }

  /** The server gets the command and applies it; its reply is swallowed and the connection closed. */
  dropReplies(times = Infinity): void {
    this.set({ kind: 'dropAndClose', times }, 'down');
  }

  /** Swallows without a sign. Default: the replies. */
  swallow(direction: Direction = 'down'): void {
    this.set({ kind: 'swallow' }, direction);
  }

  /** Loses a share of the replies, or messages, whole: Redis writes each at once. */
  lose(share: number, seed = 1): void {
    this.set({ kind: 'lose', share, random: seededRandom(seed) }, 'down');
  }

  /** Limits faults to one kind of connections, until {@link calm}. */
  only(kind: Kind): this {
    this.kind = kind;
    return this;
  }

  /** Closes the connection once `bytes` more have passed in this direction. */
  closeAfterBytes(bytes: number, direction: Direction = 'down'): void {
    this.set({ kind: 'closeAfter', bytes }, direction);
  }

  /** Closes every connection and refuses new ones until {@link open}. */
  cut(): void {
    this.closed = true;
    this.closeConnections();
  }

  /** As {@link cut}, but what is open stays. */
  refuseNew(): void {
    this.closed = true;
  }

  open(): void {
    this.closed = false;
  }

  /** Closes every connection; new ones are served. */
  closeConnections(): void {
    for (const pair of this.pairs) if (this.concerns(pair)) pair.close();
  }

  /** Resolves when a client sends bytes that contain this text, from now on. */
  requestSeen(text: string): Promise<void> {
    return new Promise((resolve) => this.watchers.add({ text, resolve }));
  }

  /** Applies random faults one after another, at the times and in the order that the seed gives, until {@link calm}. */
  chaos(options: {
    seed: number;
    faults?: readonly ((proxy: TcpProxy) => void)[];
    everyMs?: [number, number];
  }): void {
    const random = seededRandom(options.seed);
    const [least, most] = options.everyMs ?? [20, 200];
    const faults = options.faults ?? [
      (proxy: TcpProxy) => proxy.pass(),
      (proxy: TcpProxy) => proxy.delay(30),
      (proxy: TcpProxy) => proxy.dropReplies(1),
      (proxy: TcpProxy) => proxy.closeAfterBytes(200),
      (proxy: TcpProxy) => proxy.closeConnections(),
    ];
    const next = (): void => {
      this.chaosTimer = setTimeout(
        () => {
          this.pass();
          faults[Math.floor(random() * faults.length)]!(this);
          next();
        },
        least + random() * (most - least),
      );
      this.chaosTimer.unref();
    };
    next();
  }

  /** Ends {@link chaos} and lets everything through. */
  calm(): void {
    clearTimeout(this.chaosTimer);
    this.kind = undefined;
    this.open();
    this.pass();
  }

  async stop(): Promise<void> {
    clearTimeout(this.chaosTimer);
    this.kind = undefined;
    this.cut();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  private set(fault: Fault, direction?: Direction): void {
    for (const each of direction ? [direction] : (['up', 'down'] as const)) this.faults[each] = { ...fault };
  }

  private accept(client: Socket): void {
    if (this.closed) {
      client.on('error', () => undefined);
      client.destroy();
      return;
    }
    const pair = new Pair(client, connect(this.targetPort, '127.0.0.1'), () => this.pairs.delete(pair));
    this.pairs.add(pair);
    pair.onData('up', (chunk) => {
      pair.subscribes ||= chunk.includes('\r\nsubscribe\r\n');
      for (const watcher of this.watchers) {
        if (!chunk.includes(watcher.text)) continue;
        this.watchers.delete(watcher);
        watcher.resolve();
      }
      this.handle(pair, 'up', chunk);
    });
    pair.onData('down', (chunk) => this.handle(pair, 'down', chunk));
  }

  private concerns(pair: Pair): boolean {
    return !this.kind || pair.subscribes === (this.kind === 'messages');
  }

  private handle(pair: Pair, direction: Direction, chunk: Buffer): void {
    const fault = this.concerns(pair) ? this.faults[direction] : PASS;
    switch (fault.kind) {
      case 'pass':
        return pair.forward(direction, chunk, 0);
      case 'delay':
        return pair.forward(direction, chunk, fault.ms);
      case 'swallow':
        return;
      case 'lose':
        if (fault.random() >= fault.share) pair.forward(direction, chunk, 0);
        return;
      case 'dropAndClose':
        fault.times -= 1;
        if (fault.times <= 0) this.faults[direction] = PASS;
        return pair.close();
      case 'closeAfter': {
        const rest = fault.bytes;
        fault.bytes -= chunk.length;
        if (fault.bytes > 0) return pair.forward(direction, chunk, 0);
        this.faults[direction] = PASS;
        pair.forward(direction, chunk.subarray(0, rest), 0);
        return pair.close();
      }
    }
  }
}

/** One proxied connection. */
class Pair {
  /** The client has sent SUBSCRIBE. */
  subscribes = false;
  private readonly sockets: Record<Direction, { from: Socket; to: Socket }>;
  /** When the last byte queued in this direction is due: later bytes never overtake it. */
  private readonly dueAt: Record<Direction, number> = { up: 0, down: 0 };
  private readonly timers = new Set<NodeJS.Timeout>();
  private open = true;

  constructor(
    private readonly client: Socket,
    private readonly server: Socket,
    private readonly onClose: () => void,
  ) {
    this.sockets = { up: { from: client, to: server }, down: { from: server, to: client } };
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on('error', () => this.close());
      socket.on('close', () => this.close());
    }
  }

  onData(direction: Direction, listener: (chunk: Buffer) => void): void {
    this.sockets[direction].from.on('data', listener);
  }

  forward(direction: Direction, chunk: Buffer, delayMs: number): void {
    const now = Date.now();
    const dueAt = Math.max(now + delayMs, this.dueAt[direction]);
    const write = (): void => {
      if (this.open) this.sockets[direction].to.write(chunk);
    };
    if (dueAt <= now) return write();
    this.dueAt[direction] = dueAt;
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      write();
    }, dueAt - now);
    this.timers.add(timer);
  }

  /** Closes both ends; bytes written before are still sent. */
  close(): void {
    if (!this.open) return;
    this.open = false;
    for (const timer of this.timers) clearTimeout(timer);
    for (const socket of [this.client, this.server]) {
      socket.destroySoon();
    }
    this.onClose();
  }
}
