import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { redisBackend } from '../../../lib/backend/redis/redis-backend.js';
import { IdempotencyEngine } from '../../../lib/idempotency/idempotency-engine.js';
import { keyRecord } from '../../../lib/idempotency/record-key.js';
import { IdempotencyService } from '../../../lib/nest/idempotency.service.js';

/**
 * A process that is sent deliveries of keys and answers each with what became of it. Every run tells a ledger
 * (another Redis) that it began, that its outcome was stored, and that it knew when its lease was lost.
 */
const [, , storeUrl, ledgerUrl, name] = process.argv;

interface Delivery {
  id: number;
  key: string;
}

async function main(): Promise<void> {
  const backend = redisBackend({ redis: storeUrl! });
  await backend.start(2_000).catch(() => undefined);
  const engine = new IdempotencyEngine({ backend });
  const service = new IdempotencyService(engine);
  const ledger = new Redis(ledgerUrl!);
  const running = new Map<string, string>();
  engine.events.subscribe(({ type, recordKey, attempt }) => {
    const run = running.get(`${recordKey} ${attempt}`);
    if (type === 'lost' && run) void ledger.sadd('knew', run);
    if (type === 'completed' && run) void ledger.sadd('stored', run);
  });

  process.on('message', ({ id, key }: Delivery) => {
    const recordKey = keyRecord('', { key });
    const task = async ({ attempt }: { attempt: number }): Promise<string> => {
      const run = randomUUID();
      running.set(`${recordKey} ${attempt}`, run);
      await ledger.rpush(`runs:${key}`, JSON.stringify({ run, process: name, attempt }));
      const worksFor = Math.random() < 0.02 ? 3_000 : 40;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * worksFor));
      return run;
    };
    service.execute(key, task, { lease: '1500ms', onConcurrent: id % 2 ? 'wait' : 'reject' }).then(
      ({ value, replayed, attempt }) => process.send?.({ id, key, value, replayed, attempt }),
      (error: { code?: string; message: string }) => {
        process.send?.({ id, key, code: error.code ?? error.message });
      },
    );
  });
  process.send?.({ ready: name });
}

void main();
