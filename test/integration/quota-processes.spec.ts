import { join } from 'node:path';
import { Child } from '../support/child.js';
import { RedisServer } from '../support/redis-server.js';

const BUYER = join(__dirname, 'children', 'quota-buyer.ts');

describe('quota over several processes', () => {
  let server: RedisServer;
  let children: Child[] = [];

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterEach(async () => {
    await Promise.all(children.map((child) => child.kill()));
    children = [];
  });
  afterAll(() => server.stop());

  it('Q1: 4 processes with 500 buyers each share a stock of 1 000: exactly 1 000 served, none left', async () => {
    const client = server.client();
    await client.hset('quota:flash', 'remain', 1_000);
    children = Array.from({ length: 4 }, () =>
      Child.start(BUYER, { args: [server.url, 'quota:flash', '500'] }),
    );
    await Promise.all(children.map((child) => child.next({ type: 'ready' })));

    for (const child of children) child.send('go');
    const results = await Promise.all(
      children.map((child) => child.next<{ served: number; refused: number }>({ type: 'bought' })),
    );

    expect(results.reduce((sum, { served }) => sum + served, 0)).toBe(1_000);
    expect(results.reduce((sum, { refused }) => sum + refused, 0)).toBe(1_000);
    expect(await client.hget('quota:flash', 'remain')).toBe('0');
  });
});
