import { join } from 'node:path';
import { Child } from '../support/child.js';
import { RedisServer } from '../support/redis-server.js';

const CHILD = join(__dirname, '../integration/children/close-without-redis.ts');

describe('closing while Redis is away', () => {
  it.each([
    ['never was there', 200],
    ['went away', 5_000],
  ])('settles when Redis %s, although nothing else keeps the process alive', async (how, startMs) => {
    const server = await RedisServer.start();
    if (how === 'never was there') await server.kill();
    const child = Child.start(CHILD, { args: [server.url, String(startMs)] });
    await child.next({ ready: true });
    await server.kill();
    child.send('close');
    expect((await child.exited).code).toBe(0);
    expect(child.text).toContain('after close');
    await server.stop();
  });
});
