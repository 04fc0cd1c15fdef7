import type { Backend } from '../backend/backend.js';
import { LockClosedError } from '../errors.js';
import { outsideCallChain } from '../outside-call-chain.js';

/**
 * A backend that opens its connections when the application has been checked, or sooner when something needs it
 * sooner (a provider that migrates under a lock, say). A start-up that fails before that leaves nothing open.
 */
export class StartingBackend implements Backend {
  readonly kind: string;
  readonly tokenPrefix: string;
  readonly locks: Backend['locks'];
  readonly idempotency: Backend['idempotency'];
  readonly quotas: Backend['quotas'];
  #begun: Promise<void> | undefined;
  #closed = false;

  constructor(private readonly inner: Backend) {
    this.kind = inner.kind;
    this.tokenPrefix = inner.tokenPrefix;
    this.locks = inner.locks;
    this.idempotency = inner.idempotency;
    this.quotas = inner.quotas;
  }

  start(timeoutMs: number): Promise<void> {
    this.#begun ??= outsideCallChain(() => this.inner.start(timeoutMs));
    return this.#begun;
  }

  async whenReady(timeoutMs: number): Promise<void> {
    if (this.#closed) throw new LockClosedError();
    // Its failure is told to whoever starts the application; here the store's own answer counts.
    if (!this.#begun) this.start(timeoutMs).catch(() => undefined);
    return this.inner.whenReady(timeoutMs);
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (!this.#begun) return;
    await this.inner.close();
  }
}
