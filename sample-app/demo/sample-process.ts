import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { extname, join } from 'node:path';
import { createInterface } from 'node:readline';

// Compiled, these are .js; the tests run the sources.
const EXTENSION = extname(__filename);
const MAIN = join(__dirname, `../src/main${EXTENSION}`);
const EXIT_WITH_PARENT = join(__dirname, `exit-with-parent${EXTENSION}`);
const SWITCH_OFF_DECORATORS = join(__dirname, `switch-off-decorators${EXTENSION}`);
const KEPT_LINES = 20;

/** One process of the sample application, on a port that it keeps when it is started again. */
export class SampleProcess {
  /** The requests that are under way to this process at this moment, each with what it is about. */
  readonly underWay = new Map<number, string>();
  private child?: ChildProcess;
  private output: string[] = [];

  constructor(
    readonly name: string,
    private readonly env: Record<string, string>,
    private readonly withoutModule: boolean,
    private port = 0,
  ) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get pid(): number | undefined {
    return this.child?.pid;
  }

  /** Resolves when it listens. */
  async start(): Promise<void> {
    const preload = this.withoutModule ? [EXIT_WITH_PARENT, SWITCH_OFF_DECORATORS] : [EXIT_WITH_PARENT];
    const child = fork(MAIN, {
      execArgv: [...process.execArgv, ...preload.flatMap((file) => ['--require', file])],
      env: { ...process.env, ...this.env, HOST: '127.0.0.1', PORT: String(this.port) },
      silent: true,
    });
    this.child = child;
    this.output = [];
    this.port = await this.listeningPort(child);
  }

  /** kill -9: no shutdown hook runs, nothing is released. */
  async kill(): Promise<void> {
    await this.end('SIGKILL');
  }

  /** SIGTERM: sections finish, locks are released. */
  async stop(): Promise<void> {
    await this.end('SIGTERM');
  }

  private async end(signal: NodeJS.Signals): Promise<void> {
    const { child } = this;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  private listeningPort(child: ChildProcess): Promise<number> {
    return new Promise((resolve, reject) => {
      for (const stream of [child.stdout, child.stderr]) {
        if (!stream) continue;
        createInterface(stream).on('line', (line) => {
          this.output = [...this.output, line].slice(-KEPT_LINES);
          const port = /^Listening on http:\/\/[^:]+:(\d+)/.exec(line)?.[1];
          if (port) resolve(Number(port));
        });
      }
      // 'close', not 'exit': the lines that say why are all read by then.
      child.once('close', () => reject(new Error(`${this.name} ended:\n${this.output.join('\n')}`)));
      child.once('error', reject);
    });
  }
}
