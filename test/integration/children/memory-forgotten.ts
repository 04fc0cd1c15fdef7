import { inMemoryBackend } from '../../../lib/backend/memory/memory-backend.js';

/** Starts the in-memory backend, uses it, and never closes it. */
const backend = inMemoryBackend();
void backend
  .start(1_000)
  .then(() =>
    backend.locks.acquire({ key: 'a', token: 't', leaseMs: 60_000, ttlMs: 60_000, queue: false }, 1_000),
  )
  .then((reply) => process.send!({ type: 'acquired', status: reply.status }));
