import { Redis } from 'ioredis';
import { redisBackend, type RedisBackendOptions } from '../../lib/backend/redis/redis-backend.js';
import { Child } from '../support/child.js';
import { freePort } from '../support/free-port.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { closeBackends, lease, startBackend, storeError, TIMEOUT_MS } from './redis-fixture.js';

describe('the connection to Redis', () => {
  let server: RedisServer;
  let redis: Redis;

  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  afterEach(closeBackends);
  afterAll(() => server.stop());

  it('L30: a client of the application on db 5 with a prefix: keys and companions are there', async () => {
    const application = server.client({ db: 5, keyPrefix: 'app:' });
    const backend = await startBackend({ redis: application });
    await backend.locks.acquire(lease('lock:1'), TIMEOUT_MS);
    await backend.quotas.init('quota:1', 5, TIMEOUT_MS);
    const there = server.client({ db: 5 });
    expect((await there.keys('*lock:1*')).sort()).toEqual(['app:lock:1', '{app:lock:1}:fence']);
    expect(await there.hget('app:quota:1', 'remain')).toBe('5');
    expect(await redis.keys('*lock:1*')).toEqual([]);
    expect(application.options).toMatchObject({ db: 5, keyPrefix: 'app:', enableOfflineQueue: true });
  });

  it('L30: a database that the application selected later counts', async () => {
    const application = server.client();
    await application.select(3);
    const backend = await startBackend({ redis: application });
    await backend.locks.acquire(lease('selected'), TIMEOUT_MS);
    expect(await application.exists('selected')).toBe(1);
  });

  it('L30: a database that the server does not have is refused, and nothing is locked in another one', async () => {
    const backend = redisBackend({ redis: `${server.url}/99` });
    const started = await storeError(backend.start(TIMEOUT_MS));
    expect(started).toMatchObject({
      retryable: false,
      message: expect.stringContaining('no database of that number'),
    });
    const refused = await storeError(backend.locks.acquire(lease('nowhere'), TIMEOUT_MS));
    expect(refused).toMatchObject({ outcome: 'notApplied', retryable: false });
    await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await storeError(backend.whenReady(300));
    expect(await redis.exists('nowhere')).toBe(0);
    await backend.close();
  });

  it('L31: commands that another library defined do not interfere, and nothing is defined by us', async () => {
    const application = server.client();
    application.defineCommand('acquire', { numberOfKeys: 1, lua: 'return "theirs"' });
    application.defineCommand('evalsha', { numberOfKeys: 0, lua: 'return "theirs"' });
    await waitFor(() => application.status === 'ready');
    const before = Object.getOwnPropertyNames(application).sort();
    const backend = await startBackend({ redis: application });
    expect(await backend.locks.acquire(lease('defined'), TIMEOUT_MS)).toMatchObject({ status: 'granted' });
    expect(Object.getOwnPropertyNames(application).sort()).toEqual(before);
  });

  it('L32: a connection killed again and again rejects what is under way, and nothing else', async () => {
    const unhandled = jest.fn();
    process.on('unhandledRejection', unhandled);
    const proxy = await TcpProxy.start(server.port);
    try {
      const backend = await startBackend({ redis: proxy.url });
      const mine = lease('killed', 60_000);
      await backend.locks.acquire(mine, TIMEOUT_MS);
      for (let round = 0; round < 20; round++) {
        await backend.whenReady(10_000);
        proxy.closeAfterBytes(1);
        const [reply] = await Promise.allSettled(backend.locks.extend([mine], TIMEOUT_MS));
        expect(reply!.status).toBe('rejected');
      }
      await backend.whenReady(10_000);
      expect(await backend.locks.extend([mine], TIMEOUT_MS)[0]).toBe('extended');
      expect(unhandled).not.toHaveBeenCalled();
    } finally {
      process.off('unhandledRejection', unhandled);
      await closeBackends();
      await proxy.stop();
    }
  });

  it("L33: closing leaves the application's client alone and closes ours", async () => {
    const application = server.client();
    await waitFor(() => application.status === 'ready');
    const clients = async (): Promise<number> =>
      ((await redis.client('LIST')) as string).trim().split('\n').length;
    const before = await clients();
    const backend = await startBackend({ redis: application });
    expect(await clients()).toBe(before + 1);
    await backend.close();
    await backend.close();
    expect(application.status).toBe('ready');
    expect(await application.ping()).toBe('PONG');
    await waitFor(async () => (await clients()) === before, { what: 'our connection to be gone' });
  });

  it.each([
    ['after a hold', 'hold'],
    ['with Redis down', 'down'],
    ['with a clean-up still to do', 'clean-up'],
    ['with its inbox open', 'inbox'],
    ['with a server that has stopped answering', 'silent'],
  ])('L33: once closed, nothing keeps the process alive: %s', async (_, scene) => {
    const port = scene === 'down' ? await freePort() : server.port;
    const child = Child.start('redis-exit.ts', { args: [`redis://127.0.0.1:${port}`, scene] });
    if (scene === 'silent') {
      await child.next({ type: 'started' });
      server.pause();
      child.send({ type: 'close' });
    }
    try {
      expect(await child.exited).toEqual({ code: 0, signal: null });
    } finally {
      server.resume();
    }
  });

  it('L37: with Redis down a call rejects at once and start() in its time; both work once it is up', async () => {
    const port = await freePort();
    const problems: string[] = [];
    const backend = redisBackend({
      redis: { port, host: '127.0.0.1' },
      onProblem: (message) => problems.push(message),
    });
    try {
      const error = await storeError(backend.start(300));
      expect(error).toMatchObject({ outcome: 'notApplied', retryable: true });
      expect(error.message).toContain('ECONNREFUSED');
      expect(await storeError(backend.locks.acquire(lease('down'), TIMEOUT_MS))).toMatchObject({
        outcome: 'notApplied',
        retryable: true,
      });
      const late = await RedisServer.start({ port });
      try {
        await backend.whenReady(10_000);
        expect(await late.client().exists('down')).toBe(0);
        expect(await backend.locks.acquire(lease('down'), TIMEOUT_MS)).toMatchObject({ status: 'granted' });
        // one line for the outage, one for its end
        expect(problems).toHaveLength(2);
      } finally {
        await late.stop();
      }
    } finally {
      await backend.close();
    }
  });

  it('a connection on which nothing is answered any more is given up for a new one', async () => {
    const proxy = await TcpProxy.start(server.port);
    const backend = await startBackend({ redis: proxy.url });
    proxy.swallow();
    const swallowed = await storeError(backend.locks.acquire(lease('stuck'), 100));
    expect(swallowed).toMatchObject({ outcome: 'unknown', retryable: true });
    await waitFor(
      async () => {
        await backend.locks.inspect('stuck', 100).catch(() => undefined);
        return proxy.connections === 0;
      },
      { what: 'the connection to be given up' },
    );
    proxy.pass();
    await backend.whenReady(10_000);
    expect(await backend.locks.inspect('stuck', TIMEOUT_MS)).not.toBeNull();
    await closeBackends();
    await proxy.stop();
  });

  it('refuses at once, with advice, when Redis asks for a password or forbids a command', async () => {
    const guarded = await RedisServer.start({ config: { requirepass: 'secret' } });
    try {
      for (const options of [{ redis: guarded.url }, { redis: `redis://:wrong@127.0.0.1:${guarded.port}` }]) {
        const backend = redisBackend(options);
        const error = await storeError(backend.start(10_000));
        expect(error.retryable).toBe(false);
        expect(error.message).toMatch(/NOAUTH|WRONGPASS/);
        expect(error.message).not.toContain('wrong');
        await backend.close();
      }
      const admin = guarded.client({ password: 'secret' });
      await admin.call('ACL', 'SETUSER', 'limited', 'on', '>pw', '~*', '+@all', '-eval', '-evalsha');
      const limited = redisBackend({ redis: `redis://limited:pw@127.0.0.1:${guarded.port}` });
      const error = await storeError(limited.start(10_000));
      expect(error.message).toContain('NOPERM');
      expect(error.retryable).toBe(false);
      await limited.close();
    } finally {
      await guarded.stop();
    }
  });

  it('warns once when Redis may evict keys, and is silent where CONFIG is refused', async () => {
    const evicting = await RedisServer.start({ config: { 'maxmemory-policy': 'allkeys-lru' } });
    try {
      const problems: string[] = [];
      const onProblem = (message: string): void => void problems.push(message);
      await startBackend({ redis: evicting.url, onProblem });
      expect(problems).toEqual([expect.stringContaining('allkeys-lru')]);
      await evicting.client().call('ACL', 'SETUSER', 'plain', 'on', '>pw', '~*', '+@all', '-config');
      problems.length = 0;
      await startBackend({ redis: `redis://plain:pw@127.0.0.1:${evicting.port}`, onProblem });
      expect(problems).toEqual([]);
      expect(await evicting.client().exists('lock:__check')).toBe(0);
    } finally {
      await closeBackends();
      await evicting.stop();
    }
  });

  it.each<[string, RedisBackendOptions['redis'] | null | 7]>([
    ['text', 'not a url'],
    ['http', 'http://127.0.0.1'],
    ['a number', 7],
    ['null', null],
    ['a list', [] as never],
    ['a port', { port: 99_999 }],
    ['a host', { host: 5 as never }],
    ['a database that is no number', 'redis://127.0.0.1:6379/orders'],
    ['a negative database', { db: -1 }],
    ['another client', { sendCommand: () => undefined } as never],
  ])('options that lead to no Redis are a LockConfigError that says what to give: %s', (_, redisOption) => {
    expect(() => redisBackend({ redis: redisOption as never })).toThrow(
      expect.objectContaining({ code: 'LOCK_CONFIG', message: expect.stringMatching(/^redis/) }),
    );
  });

  it('a wrong URL is not repeated in the error: it may hold a password', () => {
    expect(() => redisBackend({ redis: 'http://:secret@host' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('secret') }),
    );
  });
});
