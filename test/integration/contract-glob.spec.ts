import { compileGlob } from '../../lib/backend/memory/glob.js';
import { seededRandom } from '../support/random.js';
import { RedisServer } from '../support/redis-server.js';

// No byte beyond ASCII here: whether it is below or above others in a range depends on Redis's platform.
const PATTERN_PARTS = ['a', 'b', '-', ']', '[', '^', '*', '?', '\\', '[a-b]', '[^a]', '[\\]b]'];
const TEXT_PARTS = ['a', 'b', '-', ']', '[', '^', '*', '\\', 'é'];

describe('glob patterns of the in-memory backend', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());

  it('mean what they mean to Redis', async () => {
    const random = seededRandom(20_26);
    const word = (parts: readonly string[], most: number): string =>
      Array.from(
        { length: 1 + Math.floor(random() * most) },
        () => parts[Math.floor(random() * parts.length)]!,
      ).join('');
    const texts = [...new Set(Array.from({ length: 400 }, () => word(TEXT_PARTS, 5)))];
    const client = server.client();
    await client.mset(texts.flatMap((text) => [text, '']));

    for (let round = 0; round < 2_000; round++) {
      const pattern = word(PATTERN_PARTS, 6);
      const fits = compileGlob(pattern);
      const ours = texts.filter(fits).sort();
      const theirs = (await client.keys(pattern)).sort();
      expect({ pattern, matches: ours }).toEqual({ pattern, matches: theirs });
    }
  });
});
