import { join } from 'node:path';
import { Child } from '../support/child.js';
import { RedisCluster } from '../support/redis-cluster.js';
import { RedisServer } from '../support/redis-server.js';

const APP = join(__dirname, 'children/shutdown-app.ts');
/** Prompt: the drain is 300 ms, and nothing else is worth waiting for. Far below a test's own limit. */
const PROMPT_MS = 10_000;

describe.each(['single', 'cluster'])('an application whose Redis is gone, %s', (kind) => {
  let nodes: readonly RedisServer[];
  let cluster: RedisCluster | undefined;

  beforeEach(async () => {
    cluster = kind === 'cluster' ? await RedisCluster.start() : undefined;
    nodes = cluster ? cluster.nodes : [await RedisServer.start()];
  });
  afterEach(async () => {
    await (cluster ? cluster.stop() : nodes[0]!.stop());
  });

  it.each([
    ['app.close()', 'after close'],
    ['SIGTERM with shutdown hooks', 'after the shutdown hooks'],
  ])('ends promptly and cleanly on %s', async (how, line) => {
    const child = Child.start(APP, { args: [kind, ...nodes.map(({ port }) => String(port))] });
    await child.next({ ready: true, status: 201 });
    await Promise.all(nodes.map((node) => node.kill()));
    const startedAt = Date.now();
    if (how === 'app.close()') child.send('close');
    else void child.terminate();
    expect({ ...(await child.exited), text: child.text }).toEqual({
      code: 0,
      signal: null,
      text: expect.stringContaining(line),
    });
    expect(Date.now() - startedAt).toBeLessThan(PROMPT_MS);
  });
});
