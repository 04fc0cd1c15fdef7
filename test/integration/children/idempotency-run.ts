/**
 * One process that executes a task for a key, told by messages: `run` starts it, `finish` ends its task.
 * CLOCK_OFFSET shifts the process's wall clock, as on a host whose clock is wrong.
 */
const offset = Number(process.env.CLOCK_OFFSET ?? 0);
const now = Date.now.bind(Date);
Date.now = () => now() + offset;

import { redisBackend } from '../../../lib/backend/redis/redis-backend.js';
import { isRedisLockError } from '../../../lib/errors.js';
import { IdempotencyEngine } from '../../../lib/idempotency/idempotency-engine.js';
import { IdempotencyService } from '../../../lib/nest/idempotency.service.js';

const say = (message: object): void => void process.send!(message);

async function main(): Promise<void> {
  const backend = redisBackend({ redis: process.env.REDIS_URL! });
  await backend.start(5_000);
  const service = new IdempotencyService(new IdempotencyEngine({ backend }));
  let finish: (value: unknown) => void = () => undefined;
  process.on('message', (message: { type: string; key: string; options?: object; value?: unknown }) => {
    if (message.type === 'finish') return finish(message.value);
    const task = ({ attempt }: { attempt: number }): Promise<unknown> => {
      say({ type: 'running', attempt });
      return new Promise((resolve) => (finish = resolve));
    };
    service.execute(message.key, task, message.options).then(
      (result) => say({ type: 'result', ...result }),
      (error: Error) => say({ type: 'error', code: isRedisLockError(error) ? error.code : error.message }),
    );
  });
  say({ type: 'ready' });
}

void main();
