import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { pingRedis } from '../../sample-app/src/redis/ping-redis.js';
import { Child } from '../support/child.js';
import { freePort } from '../support/free-port.js';
import { RedisServer } from '../support/redis-server.js';
import { waitFor } from '../support/wait-for.js';

const MAIN = resolve(__dirname, '../../sample-app/src/main.ts');
const listening = async (): Promise<Server> => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
};

const WITHOUT_REDIS = { REDIS_URL: '', REDIS_SERVER: '', PATH: '/nonexistent' };

// Whole processes are started here, some twice in a test: a busy machine takes its time for that.
jest.setTimeout(120_000);

describe('the sample: start-up', () => {
  let folder: string;
  const children: Child[] = [];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'sample-start-'));
  });

  afterEach(async () => {
    await Promise.all(children.splice(0).map((child) => child.kill()));
    rmSync(folder, { recursive: true, force: true });
  });

  function start(env: Record<string, string> = {}): Child {
    const child = Child.start(MAIN, {
      env: {
        REDIS_URL: '',
        DATABASE_URL: '',
        DATABASE_FILE: join(folder, 'sample.db'),
        PORT: '0',
        NODE_ENV: '',
        ...env,
      },
    });
    children.push(child);
    return child;
  }

  async function started(child: Child): Promise<{ url: string; curls: string[] }> {
    const curls = await waitFor(
      () => {
        const lines = child.text.split('\n').filter((line) => line.startsWith('curl '));
        return lines.length === 3 && child.text.endsWith('\n') ? lines : undefined;
      },
      { timeoutMs: 60_000, what: `three curl lines in ${child.text}` },
    );
    return { url: /Listening on (\S+)\./.exec(child.text)![1]!, curls };
  }

  const paste = async (line: string): Promise<string> =>
    (await promisify(execFile)('sh', ['-c', line])).stdout;

  it.each([
    ['a Redis that it found', {}],
    ['no Redis at all', WITHOUT_REDIS],
  ])('prints three curl lines that work, and replay when pasted again, with %s', async (_, env) => {
    const { curls } = await started(start(env));
    const statuses = ['HTTP/1.1 200', 'HTTP/1.1 201', 'HTTP/1.1 201'];
    for (const [index, line] of curls.entries()) {
      const first = await paste(line);
      expect(first).toContain(statuses[index]);
      expect(first).not.toMatch(/^idempotent-replayed/im);
      const again = await paste(line);
      expect(again).toContain(statuses[index]);
      expect(again).toMatch(/^idempotent-replayed: true/im);
      expect(again.split('\r\n\r\n')[1]).toBe(first.split('\r\n\r\n')[1]);
    }
  });

  it('says that locks in memory do not reach a second process', async () => {
    const child = start(WITHOUT_REDIS);
    await started(child);
    expect(child.text).toMatch(
      /^Locks live in the memory of this process: .*a second process would not see/m,
    );
  });

  it('starts again on the same database, with new curl lines that work', async () => {
    const first = start();
    const before = await started(first);
    await paste(before.curls[0]!);
    await first.terminate();
    const after = await started(start());
    for (const line of after.curls) expect(await paste(line)).toMatch(/^HTTP\/1\.1 20[01]/);
  });

  it('stops the Redis that it started, however it ends itself', async () => {
    for (const end of ['terminate', 'kill'] as const) {
      const child = start();
      await started(child);
      const redis = /redis:\/\/127\.0\.0\.1:\d+/.exec(child.text)![0];
      await pingRedis(redis);
      await child[end]();
      await waitFor(
        () =>
          pingRedis(redis).then(
            () => false,
            () => true,
          ),
        { what: `the end of ${redis}` },
      );
    }
  });

  it('uses the Redis of REDIS_URL and keeps its password to itself', async () => {
    const server = await RedisServer.start({ config: { requirepass: 'secret' } });
    try {
      const child = start({ REDIS_URL: `redis://:secret@127.0.0.1:${server.port}` });
      await started(child);
      expect(child.text).toContain(`127.0.0.1:${server.port}`);
      expect(child.text).not.toContain('secret');
    } finally {
      await server.stop();
    }
  });

  it('says in one line that REDIS_URL cannot be reached, and exits with 1', async () => {
    const child = start({ REDIS_URL: `redis://127.0.0.1:${await freePort()}` });
    expect(await child.exited).toEqual({ code: 1, signal: null });
    expect(child.text).toMatch(
      /^The sample does not start: Redis at REDIS_URL .* cannot be reached: .*ECONNREFUSED.*\n$/,
    );
  });

  it('says so, too, when something listens there that never answers', async () => {
    const silent = await listening();
    try {
      const { port } = silent.address() as AddressInfo;
      const child = start({ REDIS_URL: `redis://127.0.0.1:${port}` });
      expect(await child.exited).toEqual({ code: 1, signal: null });
      expect(child.text).toMatch(/^The sample does not start: .* no answer within 3000 ms\.\n$/);
    } finally {
      silent.close();
    }
  });

  it.each([
    ['PORT', 'http'],
    ['PORT', '70000'],
    ['LOCK_LOGGING', 'loud'],
  ])('says in one line what is wrong with %s=%s', async (name, value) => {
    const child = start({ [name]: value });
    expect((await child.exited).code).toBe(1);
    expect(child.text).toMatch(new RegExp(`^The sample does not start: ${name} .*${value}.*\\n$`));
  });

  it('says in one line that REDIS_SERVER does not exist', async () => {
    const missing = join(folder, 'redis-server');
    const child = start({ REDIS_SERVER: missing });
    expect((await child.exited).code).toBe(1);
    expect(child.text).toBe(`The sample does not start: REDIS_SERVER ${missing} does not exist.\n`);
  });

  it('says in one line which databases it knows', async () => {
    const child = start({ DATABASE_URL: 'mysql://user:secret@127.0.0.1/shop', ...WITHOUT_REDIS });
    expect((await child.exited).code).toBe(1);
    expect(child.text).toMatch(
      /^The sample does not start: DATABASE_URL begins with .* not with mysql:\.\n$/m,
    );
    expect(child.text).not.toContain('secret');
  });

  it('opens the embedded database that a file: URL names', async () => {
    const file = join(folder, 'named.db');
    const child = start({ DATABASE_URL: `file:${file}`, ...WITHOUT_REDIS });
    await started(child);
    expect(child.text).toContain(`embedded SQLite file ${file}`);
  });

  it('takes a free port when its own is taken, and says so', async () => {
    const taken = await listening();
    try {
      const { port } = taken.address() as AddressInfo;
      const child = start({ PORT: String(port), ...WITHOUT_REDIS });
      const { url, curls } = await started(child);
      expect(child.text).toContain(`Port ${port} is taken`);
      expect(child.text).not.toContain('EADDRINUSE');
      expect(url).not.toContain(`:${port}`);
      expect(await paste(curls[1]!)).toContain('HTTP/1.1 201');
    } finally {
      taken.close();
    }
  });
});
