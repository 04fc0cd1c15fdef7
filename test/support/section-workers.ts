import { Child } from './child.js';
import type { Report, Work } from './children/section-worker.js';
import type { RedisServer } from './redis-server.js';

export type { Report } from './children/section-worker.js';

/** Processes that take the same locks, and the ledger that judges them. */
export class SectionWorkers {
  private constructor(
    readonly children: readonly Child[],
    private readonly ledger: RedisServer,
  ) {}

  /** One process for each URL. */
  static async start(
    urls: readonly string[],
    ledger: RedisServer,
    work: Partial<Work> = {},
  ): Promise<SectionWorkers> {
    const children = urls.map((url, n) => {
      const its: Work = {
        name: `p${n}`,
        tasks: 4,
        keys: ['k'],
        mostKeys: 1,
        ttl: 2_000,
        holdMs: 2,
        handoff: true,
        seed: n + 1,
        ...work,
      };
      return Child.start('section-worker.ts', { args: [url, ledger.url, JSON.stringify(its)] });
    });
    const workers = new SectionWorkers(children, ledger);
    await Promise.all(children.map((child, n) => child.next({ ready: `p${n}` }, 60_000)));
    return workers;
  }

  /** Lets every task have a last turn, and resolves with the reports. */
  async finish(withinMs = 60_000): Promise<Report[]> {
    for (const child of this.children) child.send('stop');
    return Promise.all(this.children.map((child, n) => child.next<Report>({ done: `p${n}` }, withinMs)));
  }

  /** How many sections there were so far. */
  async sections(): Promise<number> {
    return Number(await this.ledger.client().get('sections'));
  }

  /** What the ledger found wrong. */
  async faults(): Promise<{ overlaps: string[]; refused: string[] }> {
    const book = this.ledger.client();
    return { overlaps: await book.lrange('overlaps', 0, -1), refused: await book.lrange('refused', 0, -1) };
  }

  async kill(): Promise<void> {
    await Promise.all(this.children.map((child) => child.kill()));
  }
}
