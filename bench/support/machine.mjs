import { availableParallelism, cpus } from 'node:os';

/** @param {import('./redis-server.mjs').BenchServer} server what the figures were measured on */
export function describeMachine(server) {
  const cpu = cpus()[0]?.model ?? 'cpu';
  return `redis ${server.version}, node ${process.version}, ${availableParallelism()} × ${cpu}`;
}
