import type { BeforeApplicationShutdown, OnApplicationShutdown, OnModuleInit } from '@nestjs/common';
import type { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import { applicationEntry } from './application-registry.js';
import { unbindHolder } from './holder.js';
import type { LockInstance } from './lock-instance.js';
import { validateApplication, type LateBound } from './startup-validation.js';

/**
 * When an instance begins and ends. Nest's `close()` calls `beforeApplicationShutdown`, then waits for the open
 * requests, then calls `onApplicationShutdown`: so new locks are refused first, and what runs may finish.
 */
export class InstanceLifecycle implements OnModuleInit, BeforeApplicationShutdown, OnApplicationShutdown {
  #bound: LateBound[] = [];

  constructor(
    private readonly modules: ModulesContainer,
    private readonly config: ApplicationConfig,
    private readonly instance: LockInstance,
  ) {}

  /** @throws LockConfigError when something decorated would not be guarded. */
  async onModuleInit(): Promise<void> {
    const entry = applicationEntry(this.modules);
    if (!entry.validated) {
      this.#bound = validateApplication(this.modules, this.config);
      entry.validated = true;
    }
    await this.instance.start();
  }

  beforeApplicationShutdown(): void {
    this.instance.refuse();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.instance.close();
    // A later application of this process may use the same objects.
    for (const { instance, holder } of this.#bound) unbindHolder(instance, holder);
  }
}
