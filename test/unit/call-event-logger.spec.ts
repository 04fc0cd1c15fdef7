import { Subject } from 'rxjs';
import type { IdempotencyEvent } from '../../lib/idempotency/idempotency.js';
import type { LockEvent } from '../../lib/lock/lock.js';
import { EventLogger } from '../../lib/nest/event-logger.js';

function loggerOf(mode: 'lifecycle' | 'problems') {
  const lines: string[] = [];
  const clock = { now: 0 };
  const locks = new Subject<LockEvent>();
  const idempotency = new Subject<IdempotencyEvent>();
  const log = {
    log: (text: string) => lines.push(`log ${text}`),
    warn: (text: string) => lines.push(`warn ${text}`),
  };
  const logger = new EventLogger(log, mode, () => clock.now);
  logger.start({ locks, idempotency });
  return { lines, clock, locks, idempotency, logger };
}

describe('the event logger', () => {
  it('logs an outage once in a while, with what happened between', () => {
    const { lines, clock, locks } = loggerOf('problems');
    const down = (): void => locks.next({ type: 'unavailable', key: 'lock:1', error: new Error('no Redis') });
    for (let n = 0; n < 500; n += 1) down();
    expect(lines).toEqual(['warn unavailable lock:1 error=no Redis']);
    clock.now = 10_000;
    down();
    expect(lines[1]).toBe('warn unavailable lock:1 error=no Redis (and 499 like it before)');
  });

  it('logs every loss and takeover, whatever the mode', () => {
    for (const mode of ['lifecycle', 'problems'] as const) {
      const { lines, locks, idempotency } = loggerOf(mode);
      locks.next({ type: 'lost', key: 'k', token: 't', fencingToken: 7, heldMs: 5.4 });
      locks.next({ type: 'lost', key: 'k', token: 'u', fencingToken: 8, heldMs: 5.6 });
      idempotency.next({ type: 'takeover', recordKey: 'r', attempt: 2 });
      expect(lines).toEqual([
        'warn lost k token=t fencingToken=7 heldMs=5',
        'warn lost k token=u fencingToken=8 heldMs=6',
        'warn record takeover r attempt=2',
      ]);
    }
  });

  it('never logs contention', () => {
    const { lines, locks, idempotency } = loggerOf('lifecycle');
    locks.next({ type: 'contended', key: 'k' });
    idempotency.next({ type: 'inProgress', recordKey: 'r' });
    expect(lines).toEqual([]);
  });

  it('is silent once it is stopped', () => {
    const { lines, locks, logger } = loggerOf('lifecycle');
    logger.stop();
    locks.next({ type: 'acquired', key: 'k' });
    expect(lines).toEqual([]);
  });
});
