import { join } from 'node:path';
import { Child } from '../support/child.js';

describe('an in-memory backend that nobody closes', () => {
  it('does not keep the process alive', async () => {
    const child = Child.start(join(__dirname, 'children', 'memory-forgotten.ts'));
    try {
      expect(await child.next({ type: 'acquired' })).toMatchObject({ status: 'granted' });
      expect(await child.exited).toEqual({ code: 0, signal: null });
    } finally {
      await child.kill();
    }
  });
});
