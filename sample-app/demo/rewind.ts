import type { LocalRedisServer } from '../src/redis/local-redis-server.js';
import type { DemoOptions } from './options.js';
import type { Progress } from './report.js';

/**
 * Restarts Redis from an older snapshot while the buyers are at it: what it granted in between, it forgets, and would
 * grant again.
 */
export class Rewind {
  /** When it happened; undefined before. */
  at?: Date;
  private saving?: Promise<void>;
  private crashing?: Promise<void>;

  /** @param oneAtATime keeps it apart from the kill: a process does not start while Redis is away. */
  constructor(
    private readonly server: LocalRedisServer | undefined,
    private readonly options: DemoOptions,
    private readonly progress: Progress,
    private readonly oneAtATime: (disaster: () => Promise<void>) => Promise<void>,
  ) {}

  /** @param served how many buyers have a unit by now. */
  advance(served: number): void {
    if (!this.server) return;
    const wanted = Math.min(this.options.units, this.options.buyers);
    if (served >= wanted / 4) this.saving ??= this.save(this.server);
    if (served >= (wanted * 3) / 4) this.crashing ??= this.crash(this.server);
    // Awaited in done(): until then a failure must not end the demo without its clean-up.
    this.saving?.catch(() => undefined);
    this.crashing?.catch(() => undefined);
  }

  async done(): Promise<void> {
    await this.saving;
    await this.crashing;
  }

  private async save(server: LocalRedisServer): Promise<void> {
    await server.save();
    this.progress.note('Redis wrote a snapshot');
  }

  private async crash(server: LocalRedisServer): Promise<void> {
    await this.saving;
    await this.oneAtATime(async () => {
      this.at = new Date();
      await server.crash();
      this.progress.note('Redis was killed, and is back with the older snapshot');
    });
  }
}
