import { fork, type ChildProcess } from 'node:child_process';
import { isAbsolute, join } from 'node:path';

const NEXT_LIMIT_MS = 20_000;

export interface ChildOptions {
  args?: readonly string[];
  env?: Record<string, string>;
}

/** How a child ended. */
export interface ChildExit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A forked process that runs a TypeScript file and talks by messages. */
export class Child {
  /** Resolves when the process has ended. */
  readonly exited: Promise<ChildExit>;
  private readonly inbox: unknown[] = [];
  private readonly waiting = new Set<() => void>();
  private listener: ((message: unknown) => void) | undefined;
  private output = '';
  private ended?: ChildExit;

  private constructor(private readonly process: ChildProcess) {
    process.on('message', (message) => {
      if (this.listener) return this.listener(message);
      this.inbox.push(message);
      this.wake();
    });
    process.on('error', () => undefined);
    for (const stream of [process.stdout, process.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
    this.exited = new Promise((resolve) => {
      process.once('close', (code, signal) => {
        this.ended = { code, signal };
        resolve(this.ended);
        this.wake();
      });
    });
  }

  /** @param file absolute, or relative to test/support/children, e.g. `holder.ts`. */
  static start(file: string, options: ChildOptions = {}): Child {
    const path = isAbsolute(file) ? file : join(__dirname, 'children', file);
    return new Child(
      fork(path, [...(options.args ?? [])], {
        execArgv: ['--require', join(__dirname, 'ts-register.cjs')],
        env: { ...process.env, ...options.env },
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      }),
    );
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  /** What it has written to its standard output and error so far. */
  get text(): string {
    return this.output;
  }

  /** Hands every message that comes from now on to a listener; {@link next} does not see them. */
  onMessage(listener: (message: unknown) => void): void {
    this.listener = listener;
  }

  send(message: unknown): void {
    this.process.send(message as object, () => undefined);
  }

  /**
   * The next message, or the next one of this shape: `child.next({ type: 'ready' })`. Messages that do not match
   * stay for later.
   */
  async next<T = any>(shape: Record<string, unknown> = {}, timeoutMs = NEXT_LIMIT_MS): Promise<T> {
    const matches = (message: unknown): boolean =>
      Object.entries(shape).every(([name, value]) => (message as Record<string, unknown>)?.[name] === value);
    const giveUpAt = Date.now() + timeoutMs;
    for (;;) {
      const index = this.inbox.findIndex(matches);
      if (index >= 0) return this.inbox.splice(index, 1)[0] as T;
      const left = giveUpAt - Date.now();
      if (this.ended || left <= 0) {
        const why = this.ended
          ? `the child ended (${JSON.stringify(this.ended)})`
          : `none within ${timeoutMs} ms`;
        throw new Error(`no message ${JSON.stringify(shape)}: ${why}\n${this.output}`);
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(done, left);
        const { waiting } = this;
        function done(): void {
          clearTimeout(timer);
          waiting.delete(done);
          resolve();
        }
        waiting.add(done);
      });
    }
  }

  /** SIGKILL; resolves when it has ended. */
  kill(): Promise<ChildExit> {
    this.process.kill('SIGKILL');
    return this.exited;
  }

  /** SIGTERM; resolves when it has ended. */
  terminate(): Promise<ChildExit> {
    this.process.kill('SIGTERM');
    return this.exited;
  }

  /** SIGSTOP. */
  pause(): void {
    this.process.kill('SIGSTOP');
  }

  /** SIGCONT. */
  resume(): void {
    this.process.kill('SIGCONT');
  }

  private wake(): void {
    for (const done of this.waiting) done();
  }
}
