import type { Redis } from 'ioredis';
import type { Backend } from '../../lib/backend/backend.js';
import { RedisServer } from '../support/redis-server.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { closeBackends, lease, startBackend, TIMEOUT_MS } from './redis-fixture.js';

describe('the inbox', () => {
  let server: RedisServer;
  let redis: Redis;

  beforeAll(async () => {
    server = await RedisServer.start();
    redis = server.client();
  });
  beforeEach(() => redis.flushall());
  afterEach(closeBackends);
  afterAll(() => server.stop());

  const subscribers = async (): Promise<number> =>
    ((await redis.pubsub('CHANNELS', 'nestjs-redis-lock:inbox:*')) as string[]).length;

  /** Lets a lock be passed on to a token of this backend, and waits until that was heard. */
  async function wakesUp(backend: Backend, key: string): Promise<void> {
    const heard: string[] = [];
    backend.locks.inbox.onGrant(({ token }) => heard.push(token));
    const mine = lease(key);
    const token = `${backend.tokenPrefix}-${String(Math.random()).slice(2, 14).padStart(12, '0')}`;
    await backend.locks.acquire(mine, TIMEOUT_MS);
    await backend.locks.acquire({ ...mine, token, queue: true }, TIMEOUT_MS);
    await backend.locks.release({ ...mine, keepMs: 0 }, TIMEOUT_MS);
    await waitFor(() => heard.includes(token), { what: 'the grant to be heard' });
  }

  it('opens at the first call only, once, and closes with the backend', async () => {
    const backend = await startBackend({ redis: server.url });
    const { inbox } = backend.locks;
    let subscriptions = 0;
    inbox.onListening(() => subscriptions++);
    await backend.locks.acquire(lease('k'), TIMEOUT_MS);
    expect(inbox.state).toBe('closed');
    expect(await subscribers()).toBe(0);
    await Promise.all([inbox.open(10_000), inbox.open(10_000)]);
    await inbox.open(10_000);
    expect(inbox.state).toBe('listening');
    expect([await subscribers(), subscriptions]).toEqual([1, 1]);
    await backend.close();
    expect(inbox.state).toBe('closed');
    await waitFor(async () => (await subscribers()) === 0, { what: 'the subscription to end' });
    await inbox.open(10_000);
    expect(inbox.state).toBe('closed');
  });

  it('L12: a subscriber connection that is killed comes back, and says so each time', async () => {
    const backend = await startBackend({ redis: server.url });
    const { inbox } = backend.locks;
    let subscriptions = 0;
    inbox.onListening(() => subscriptions++);
    await inbox.open(10_000);
    for (let round = 1; round <= 5; round++) {
      expect(await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub')).toBe(1);
      await waitFor(() => subscriptions === round + 1, { what: 'the next subscription' });
      expect(inbox.state).toBe('listening');
      await wakesUp(backend, `k:${round}`);
    }
    expect(await subscribers()).toBe(1);
  });

  it('L12: a connection that breaks at any point before it listens is made again', async () => {
    for (const bytes of [1, 30, 200, 600, 2_000, 6_000]) {
      const proxy = await TcpProxy.start(server.port);
      const backend = await startBackend({ redis: proxy.url });
      proxy.closeAfterBytes(bytes);
      await backend.locks.inbox.open(10_000);
      expect(backend.locks.inbox.state).toBe('listening');
      await backend.whenReady(10_000);
      await closeBackends();
      await proxy.stop();
    }
  });

  it('L12: a SUBSCRIBE that is refused once is sent again', async () => {
    await redis.call('ACL', 'SETUSER', 'late', 'on', '>pw', '~*', '+@all', 'allchannels');
    const proxy = await TcpProxy.start(server.port);
    try {
      const backend = await startBackend({ redis: `redis://late:pw@127.0.0.1:${proxy.port}` });
      const subscribing = proxy.requestSeen('subscribe');
      proxy.delay(100, 'up');
      const opened = backend.locks.inbox.open(10_000);
      await subscribing;
      proxy.closeConnections();
      proxy.pass();
      await opened;
      expect(backend.locks.inbox.state).toBe('listening');
      await backend.whenReady(10_000);
      await wakesUp(backend, 'k');
    } finally {
      await closeBackends();
      await proxy.stop();
    }
  });

  it('opening ends in its time when nothing answers, and goes on behind it', async () => {
    const proxy = await TcpProxy.start(server.port);
    try {
      const backend = await startBackend({ redis: proxy.url });
      proxy.swallow();
      await backend.locks.inbox.open(50);
      expect(backend.locks.inbox.state).toBe('closed');
      proxy.pass();
      await waitFor(() => backend.locks.inbox.state === 'listening');
    } finally {
      await closeBackends();
      await proxy.stop();
    }
  });

  it('L12: comes back after a restart of the server', async () => {
    const own = await RedisServer.start();
    try {
      const backend = await startBackend({ redis: own.url });
      await backend.locks.inbox.open(10_000);
      await own.restart();
      await backend.whenReady(10_000);
      await waitFor(() => backend.locks.inbox.state === 'listening');
      await wakesUp(backend, 'k');
    } finally {
      await closeBackends();
      await own.stop();
    }
  });

  it('a user that may not use the channel is told so at once, and locks are passed on all the same', async () => {
    await redis.call('ACL', 'SETUSER', 'mute', 'on', '>pw', '~*', '+@all', 'resetchannels');
    const problems: string[] = [];
    const backend = await startBackend({
      redis: `redis://mute:pw@127.0.0.1:${server.port}`,
      onProblem: (message) => problems.push(message),
    });
    const { inbox } = backend.locks;
    await inbox.open(10_000);
    expect(inbox.state).toBe('forbidden');
    expect(problems).toEqual([expect.stringContaining('nestjs-redis-lock:*')]);
    await inbox.open(10_000);
    expect(problems).toHaveLength(1);

    const [mine, waiter] = [lease('k'), { ...lease('k'), queue: true }];
    await backend.locks.acquire(mine, TIMEOUT_MS);
    await backend.locks.acquire(waiter, TIMEOUT_MS);
    expect(await backend.locks.release({ ...mine, keepMs: 0 }, TIMEOUT_MS)).toBe('released');
    expect(await redis.get('k')).toBe(waiter.token);
    expect(await backend.locks.acquire(waiter, TIMEOUT_MS)).toMatchObject({ status: 'granted' });
    expect(await backend.locks.giveWay({ ...waiter, next: mine.token }, TIMEOUT_MS)).toMatchObject({
      status: 'kept',
    });
    expect(await backend.locks.forceRelease('k', TIMEOUT_MS)).toBe(true);
  });

  it('rights that are taken away while it listens make it forbidden', async () => {
    await redis.call('ACL', 'SETUSER', 'once', 'on', '>pw', '~*', '+@all', 'allchannels');
    const backend = await startBackend({ redis: `redis://once:pw@127.0.0.1:${server.port}` });
    await backend.locks.inbox.open(10_000);
    expect(backend.locks.inbox.state).toBe('listening');
    await redis.call('ACL', 'SETUSER', 'once', 'resetchannels');
    await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await waitFor(() => backend.locks.inbox.state === 'forbidden');
  });
});
