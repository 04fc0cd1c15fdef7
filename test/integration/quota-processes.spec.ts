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

  it('Q2: the same with 1 to 7 units each: what was granted and what is left make up the whole, to the unit', async () => {
    const client = server.client();
    await client.hset('quota:mixed', 'remain', 1_000);
    children = Array.from({ length: 4 }, (_, n) =>
      Child.start(BUYER, { args: [server.url, 'quota:mixed', '500', `mixed:${n}`, '7'] }),
    );
    await Promise.all(children.map((child) => child.next({ type: 'ready' })));

    for (const child of children) child.send('go');
    const results = await Promise.all(
      children.map((child) => child.next<{ units: number }>({ type: 'bought' })),
    );

    const left = Number(await client.hget('quota:mixed', 'remain'));
    expect(results.reduce((sum, { units }) => sum + units, 0)).toBe(1_000 - left);
    // everybody was refused only for want of units: with so many who asked for 1, nothing is left
    expect(left).toBe(0);
  });
});
