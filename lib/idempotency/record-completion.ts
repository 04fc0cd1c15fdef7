import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend, CompleteReply, OwnerRequest } from '../backend/backend.js';
import { withRetries } from '../backend/retry.js';
import { outsideCallChain } from '../outside-call-chain.js';

/** How long the answer waits for the record. */
const FOREGROUND_MS = 1_000;
const TRY_MS = 500;
/** One burst of tries; between two of them even a refusal (out of memory) may have passed. */
const BURST_MS = 10_000;
const PAUSE_MS = 500;

export interface CompletionRequest {
  backend: Backend;
  request: OwnerRequest;
  /** A promise never rejects. */
  payload: Buffer | Promise<Buffer>;
  /** Ends the tries in the background. */
  signal: AbortSignal;
  /** How long the record is tried for behind the caller's back. */
  backgroundMs: number;
}

export interface Completing {
  /** The store's answer, or the last error when there was none in time. */
  finished: Promise<CompleteReply>;
  /** The same, but for at most the second that an answer waits: undefined when there is none by then. Never rejects. */
  soon: Promise<CompleteReply | undefined>;
}

/**
 * Writes a reply into its record and goes on trying behind the caller's back: a store that is down for a while
 * must neither keep the answer back nor lose the record. The record is never deleted on the way.
 */
export function completeRecord(completion: CompletionRequest): Completing {
  const finished = outsideCallChain(() => tryOn(completion));
  const soon = new Promise<CompleteReply | undefined>((resolve) => {
    const over = (answer?: CompleteReply): void => {
      clearTimeout(timer);
      resolve(answer);
    };
    const timer = outsideCallChain(() => setTimeout(over, FOREGROUND_MS)).unref();
    finished.then(over, () => over());
  });
  return { finished, soon };
}

async function tryOn(completion: CompletionRequest): Promise<CompleteReply> {
  const { backend, signal, backgroundMs } = completion;
  const endsAt = performance.now() + backgroundMs;
  const payload = completion.payload instanceof Promise ? await completion.payload : completion.payload;
  const request = { ...completion.request, payload };
  for (;;) {
    const budgetMs = Math.min(BURST_MS, Math.max(TRY_MS, endsAt - performance.now()));
    try {
      return await withRetries(backend, { budgetMs, tryMs: TRY_MS, signal }, (timeoutMs) =>
        backend.idempotency.complete(request, timeoutMs),
      );
    } catch (error) {
      if (signal.aborted || performance.now() >= endsAt) throw error;
      await sleep(PAUSE_MS, undefined, { ref: false, signal }).catch(() => undefined);
    }
  }
}
