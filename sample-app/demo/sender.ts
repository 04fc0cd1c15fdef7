import { setTimeout as sleep } from 'node:timers/promises';
import type { SampleProcess } from './sample-process.js';

/** Longer than a killed process's leases: what it left half-way must be finished within this. */
const GIVE_UP_AFTER_MS = 40_000;
const REQUEST_TIMEOUT_MS = 10_000;

export interface Message {
  path: string;
  body: string;
  headers: Record<string, string>;
  /** What the database would call it in a refusal. */
  reference: string;
}

export interface Answer {
  status: number;
  code?: string;
  /** The order's, where an order was answered. */
  id?: string;
}

/** What the senders saw from outside. */
export interface Tally {
  requests: number;
  replayed: number;
  rejectedInFlight: number;
  brokenConnections: number;
  otherRetries: number;
}

export const newTally = (): Tally => ({
  requests: 0,
  replayed: 0,
  rejectedInFlight: 0,
  brokenConnections: 0,
  otherRetries: 0,
});

/** Sends as a payment provider or a careful client does: again and again, to any process, until it is answered. */
export class Sender {
  constructor(
    private readonly processes: readonly SampleProcess[],
    private readonly tally: Tally,
  ) {}

  /**
   * @param isFinal tells an answer from "not now, again later".
   * @returns undefined when no final answer came in time.
   */
  async deliver(message: Message, isFinal: (answer: Answer) => boolean): Promise<Answer | undefined> {
    const giveUpAt = Date.now() + GIVE_UP_AFTER_MS;
    for (let attempt = 1; Date.now() < giveUpAt; attempt += 1) {
      const answer = await this.attempt(message);
      if (answer && isFinal(answer)) return answer;
      await sleep(Math.min(attempt * 50, 400) * (0.5 + Math.random()));
    }
    return undefined;
  }

  private async attempt({ path, body, headers, reference }: Message): Promise<Answer | undefined> {
    const target = this.processes[Math.floor(Math.random() * this.processes.length)]!;
    this.tally.requests += 1;
    const request = this.tally.requests;
    target.underWay.set(request, reference);
    try {
      const response = await fetch(target.url + path, {
        method: 'POST',
        headers,
        ...(body ? { body } : {}),
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      });
      const answer = (await response.json()) as { code?: string; id?: string; received?: boolean };
      this.count(response, answer);
      return { status: response.status, code: answer.code, id: answer.id };
    } catch {
      this.tally.brokenConnections += 1;
      return undefined;
    } finally {
      target.underWay.delete(request);
    }
  }

  private count(
    { status, headers }: Response,
    { code, received }: { code?: string; received?: boolean },
  ): void {
    // Each provider's own shape of "the first delivery is still at work".
    const isInFlight = code === 'FAIL' || received === false || code === 'IDEMPOTENCY_IN_PROGRESS';
    if (headers.get('idempotent-replayed') === 'true') this.tally.replayed += 1;
    else if (status === 409 && isInFlight) this.tally.rejectedInFlight += 1;
    else if (status >= 500 || code?.startsWith('LOCK_')) this.tally.otherRetries += 1;
  }
}

/** Sends them all, so many at the same moment. */
export async function inParallel(
  messages: readonly Message[],
  atOnce: number,
  send: (message: Message) => Promise<void>,
): Promise<void> {
  const queue = messages.values();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const message of queue) await send(message);
    }),
  );
}
