import { createServer, type AddressInfo } from 'node:net';
import type { INestApplication } from '@nestjs/common';
import { createApp } from './create-app.js';
import { Database } from './database/database.js';
import { reasonOf } from './reason-of.js';
import { openRedisSource } from './redis/redis-source.js';
import { seed } from './seed.js';
import { curlLines } from './startup-report.js';

const print = (line: string): void => void process.stdout.write(`${line}\n`);

async function main(env: NodeJS.ProcessEnv): Promise<void> {
  const port = readPort(env.PORT);
  const logging = readLogging(env.LOCK_LOGGING);
  const redis = await openRedisSource(env);
  print(`Locks live in ${redis.description}.`);
  const database = await Database.open({ url: env.DATABASE_URL, file: env.DATABASE_FILE });
  print(`Orders live in the ${database.description}.`);

  const app = await createApp({ database, redis, logging });
  const url = await listen(app, env.HOST || '127.0.0.1', port);
  const data = await seed(app);
  print(`Listening on ${url}. Try these; paste one twice to see its answer replayed:`);
  curlLines(url, data).forEach(print);
  // Nest's start-up lines would have buried these; from here on its log is wanted.
  app.useLogger(['fatal', 'error', 'warn', 'log']);
}

/** Listens on `port`, or on a free one when somebody else has it. */
async function listen(app: INestApplication, host: string, port: number): Promise<string> {
  // Looked at first: Nest logs a listen() that fails as an error of its own.
  const taken = await isTaken(host, port);
  if (taken) print(`Port ${port} is taken: using a free one.`);
  await app.listen(taken ? 0 : port, host);
  const { port: bound } = app.getHttpServer().address() as AddressInfo;
  return `http://${host === '0.0.0.0' || host === '::' ? 'localhost' : host}:${bound}`;
}

/** Any other reason why nobody can listen there is left for the application to find. */
function isTaken(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'EADDRINUSE'));
    probe.listen(port, host, () => probe.close(() => resolve(false)));
  });
}

function readPort(value = '3000'): number {
  const port = Number(value);
  if (!/^\d+$/.test(value) || port > 65_535)
    throw new Error(`PORT ${JSON.stringify(value)} is not a port number`);
  return port;
}

function readLogging(value: string | undefined): 'lifecycle' | 'problems' {
  if (value === undefined || value === '' || value === 'problems') return 'problems';
  if (value === 'lifecycle') return value;
  throw new Error(`LOCK_LOGGING is 'lifecycle' or 'problems', not ${JSON.stringify(value)}`);
}

main(process.env).catch((error: unknown) => {
  process.stderr.write(`The sample does not start: ${reasonOf(error)}.\n`);
  // Not exitCode: what was opened so far would keep the process alive.
  process.exit(1);
});
