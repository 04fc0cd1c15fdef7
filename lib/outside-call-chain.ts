import { AsyncResource } from 'node:async_hooks';

/** Made when the package is loaded, so outside every request: its context is empty. */
const root = new AsyncResource('nestjs-redis-lock');

/**
 * Runs `fn` outside every call chain. Timers and background work of the module begin here: else a timer
 * opened in one request would keep that request's contexts (ours, a tracer's, the application's) alive, and
 * run other requests' work in them.
 */
export function outsideCallChain<T>(fn: () => T): T {
  return root.runInAsyncScope(fn);
}
