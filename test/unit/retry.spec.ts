import { isStoreUnavailable, withRetries } from '../../lib/backend/retry.js';
import { LockKeyError, StoreUnavailableError, type StoreOutcome } from '../../lib/errors.js';

const ready = { whenReady: async (): Promise<void> => undefined };
const unavailable = (outcome: StoreOutcome, retryable: boolean): StoreUnavailableError =>
  new StoreUnavailableError(`The store said ${outcome}.`, { outcome, retryable, keys: 'k' });

/** Fails with these errors one after another, then succeeds. */
function script(...errors: readonly Error[]): {
  attempt: (timeoutMs: number) => Promise<string>;
  timeouts: number[];
} {
  const timeouts: number[] = [];
  const attempt = async (timeoutMs: number): Promise<string> => {
    timeouts.push(timeoutMs);
    const error = errors[timeouts.length - 1];
    if (error) throw error;
    return 'answer';
  };
  return { attempt, timeouts };
}

const failure = async (promise: Promise<unknown>): Promise<StoreUnavailableError> => {
  const reason: unknown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!isStoreUnavailable(reason)) throw new Error(`unexpected: ${String(reason)}`);
  return reason;
};

describe('withRetries', () => {
  it('returns the first answer after one try, bounded by the try and by the budget', async () => {
    const long = script();
    expect(await withRetries(ready, { budgetMs: 60_000 }, long.attempt)).toBe('answer');
    expect(long.timeouts).toEqual([1_000]);
    const short = script();
    await withRetries(ready, { budgetMs: 300 }, short.attempt);
    expect(short.timeouts[0]).toBeLessThanOrEqual(300);
    const shorter = script();
    await withRetries(ready, { budgetMs: 60_000, tryMs: 200 }, shorter.attempt);
    expect(shorter.timeouts).toEqual([200]);
  });

  it('repeats what is retryable and what was not answered', async () => {
    const { attempt, timeouts } = script(
      unavailable('notApplied', true),
      unavailable('unknown', true),
      unavailable('unknown', false),
    );
    expect(await withRetries(ready, { budgetMs: 60_000 }, attempt)).toBe('answer');
    expect(timeouts).toHaveLength(4);
  });

  it('does not repeat a refusal that will stay one, and lets it through as it is', async () => {
    const refusal = unavailable('notApplied', false);
    const { attempt, timeouts } = script(refusal);
    expect(await failure(withRetries(ready, { budgetMs: 60_000 }, attempt))).toBe(refusal);
    expect(timeouts).toHaveLength(1);
  });

  it('says "unknown" for a refusal that follows an unanswered try', async () => {
    const refusal = unavailable('notApplied', false);
    const { attempt } = script(unavailable('unknown', true), refusal);
    const error = await failure(withRetries(ready, { budgetMs: 60_000 }, attempt));
    expect(error).toMatchObject({ outcome: 'unknown', cause: refusal, keys: ['k'] });
    expect(error.message).toMatch(/outcome is unknown/);
  });

  it('keeps "unknown" when the budget ends after a try that surely was not applied', async () => {
    let tries = 0;
    const attempt = async (): Promise<never> => {
      throw unavailable(tries++ === 0 ? 'unknown' : 'notApplied', true);
    };
    expect(await failure(withRetries(ready, { budgetMs: 150 }, attempt))).toMatchObject({
      outcome: 'unknown',
    });
    expect(tries).toBeGreaterThan(1);
  });

  it('says "notApplied" when every try surely was not', async () => {
    const attempt = async (): Promise<never> => {
      throw unavailable('notApplied', true);
    };
    const error = await failure(withRetries(ready, { budgetMs: 100 }, attempt));
    expect(error).toMatchObject({ outcome: 'notApplied', retryable: true });
    expect(error.message).toMatch(/nothing was carried out/);
  });

  it('tries once even when there is no budget', async () => {
    const { attempt, timeouts } = script();
    expect(await withRetries(ready, { budgetMs: 0 }, attempt)).toBe('answer');
    expect(timeouts).toEqual([1]);
  });

  it('waits until the store is ready before another try, inside the budget', async () => {
    const waits: number[] = [];
    const order: string[] = [];
    const backend = {
      whenReady: async (timeoutMs: number): Promise<void> => {
        waits.push(timeoutMs);
        order.push('ready');
      },
    };
    const { attempt } = script(unavailable('notApplied', true));
    await withRetries(backend, { budgetMs: 10_000 }, (timeoutMs) => {
      order.push('try');
      return attempt(timeoutMs);
    });
    expect(order).toEqual(['try', 'ready', 'try']);
    expect(waits[0]).toBeLessThan(10_000);
  });

  it('gives up when the store does not get ready', async () => {
    const backend = {
      whenReady: async (): Promise<void> => {
        throw unavailable('notApplied', true);
      },
    };
    const { attempt, timeouts } = script(unavailable('unknown', true));
    expect(await failure(withRetries(backend, { budgetMs: 60_000 }, attempt))).toMatchObject({
      outcome: 'unknown',
    });
    expect(timeouts).toHaveLength(1);
  });

  it('lets any other error through at once', async () => {
    const error = new LockKeyError('no key');
    const { attempt, timeouts } = script(error);
    await expect(withRetries(ready, { budgetMs: 60_000 }, attempt)).rejects.toBe(error);
    expect(timeouts).toHaveLength(1);
  });

  describe('with a signal', () => {
    it('starts no try when it is aborted already', async () => {
      const { attempt, timeouts } = script();
      const reason = new Error('closing');
      const error = await failure(
        withRetries(ready, { budgetMs: 60_000, signal: AbortSignal.abort(reason) }, attempt),
      );
      expect(error).toMatchObject({ outcome: 'notApplied', cause: reason });
      expect(timeouts).toHaveLength(0);
    });

    it('ends the pause and the waiting for the store', async () => {
      const abort = new AbortController();
      const backend = {
        whenReady: (): Promise<void> => {
          abort.abort(new Error('closing'));
          return new Promise(() => undefined);
        },
      };
      const { attempt, timeouts } = script(unavailable('unknown', true));
      const error = await failure(withRetries(backend, { budgetMs: 60_000, signal: abort.signal }, attempt));
      expect(error).toMatchObject({ outcome: 'unknown' });
      expect(timeouts).toHaveLength(1);
    });

    it('lets a try under way come to its end: its answer counts', async () => {
      const abort = new AbortController();
      const answer = withRetries(ready, { budgetMs: 60_000, signal: abort.signal }, async () => {
        abort.abort();
        return 'answer';
      });
      expect(await answer).toBe('answer');
    });
  });
});
